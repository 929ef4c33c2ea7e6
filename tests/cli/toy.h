#pragma once

// A program for the tests of reshard::app: a root with one parameter around two blocks, and a way to make it fail.

#include <signal.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <stdexcept>

#include "reshard/app.h"
#include "reshard/error.h"

namespace reshard::cli {

inline constexpr int kToyElements = 100;  // of each parameter

class ToyTrainer : public Trainer {
 public:
  explicit ToyTrainer(const std::string& failure) : failure_(failure) {}

  void fill(Runtime& runtime) override {
    if (failure_ == "fill") throw Error(ErrorCode::rank_failed, "the toy cannot be filled");
    runtime.fill([](std::string_view, int64_t offset, std::span<float> values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 0.01F * static_cast<float>(offset + static_cast<int64_t>(i) + 1);
    });
  }

  // Each rank and micro-batch pulls the parameters towards another value.
  double micro_batch(Runtime& runtime, MicroBatch at) override {
    fail(runtime, at);
    const float target = 0.1F * static_cast<float>(runtime.rank().index() + 1) + 0.01F * static_cast<float>(at.index);
    double loss = 0;
    const auto forward = [&](const View& w) {
      for (const float v : w.parameter(0))
        loss += 0.5 * static_cast<double>(v - target) * static_cast<double>(v - target);
    };
    const auto backward = [&](const View& w) {
      for (std::size_t i = 0; i < kToyElements; ++i) w.gradient(0)[i] += w.parameter(0)[i] - target;
    };
    runtime.forward(kRoot, [&](const View& root) {
      for (const int block : {1, 2}) runtime.forward(Unit{block}, forward);
      forward(root);
    });
    runtime.backward(kRoot, [&](const View& root) {
      backward(root);
      for (const int block : {2, 1}) runtime.backward(Unit{block}, backward);
    });
    return loss;
  }

  std::optional<double> evaluate(Runtime& runtime) override {
    if (failure_ == "validation") return -std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    runtime.forward(kRoot, [&](const View& root) { sum = static_cast<double>(root.parameter(0)[0]); });
    return sum + runtime.rank().index();
  }

  // One letter per pass; with failure "sample" no end of them, until a signal comes.
  std::string sample(Runtime& runtime, const std::function<bool()>& stop) override {
    std::string text = "a toy's word\n";
    while (failure_ == "sample" && !stop()) {
      if (text.size() == 20 && runtime.rank().index() == runtime.rank().count() - 1) kill(getpid(), SIGTERM);
      runtime.forward(kRoot, [&](const View&) { text += 'o'; });
    }
    return text;
  }

 private:
  void fail(Runtime& runtime, MicroBatch at) const {
    if (at.step < 2 || runtime.rank().index() != runtime.rank().count() - 1) return;
    if (failure_ == "throw") throw std::runtime_error("the toy broke");
    if (failure_ == "error") throw Error(ErrorCode::data, "the toy has no data left", "toy.bin", "give it more");
    if (failure_ == "unknown") throw 7;
  }

  const std::string& failure_;
};

class Toy : public Program {
 public:
  std::string failure;  // "", "open", "fill", "throw", "error", "unknown", "validation", "sample"
  std::string data;     // a flag of the toy's own
  int64_t depth = 2;    // of its table

  std::string name() const override { return "toy"; }
  std::string summary() const override { return "learns three numbers"; }
  std::string sample_unit() const override { return "words"; }
  int64_t samples_per_step(const Job& job) const override { return job.train.global_batch; }
  void declare(Tables& tables) override {
    tables.emplace_back("model", "The toy.").key("depth", &depth, {.doc = "2", .min = 2, .max = 2});
  }
  std::vector<Flag> flags() override { return {{"--data", "PATH", "what it reads", &data, ""}}; }
  Model model(const Job&, const Tables&) override {
    Model model({.name = "all", .parameters = {{"a", {kToyElements}}}});
    for (const char* block : {"b", "c"})
      model.add({.name = block, .parameters = {{std::string(block) + ".w", {10, kToyElements / 10}}}});
    return model;
  }
  void open(const Job&) override {
    if (failure == "open") throw Error(ErrorCode::data, "the toy has no data", "", "give it some");
  }
  std::unique_ptr<Trainer> trainer(const Job&, Runtime&) override { return std::make_unique<ToyTrainer>(failure); }
  std::vector<std::pair<std::string, std::string>> facts() const override { return {{"model", "three numbers"}}; }
};

}  // namespace reshard::cli
