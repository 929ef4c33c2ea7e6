// The GPT example through the whole runtime against PyTorch's twenty steps (tests/golden): the first step's gradients,
// losses, gradient norms and final parameters, under every shipped strategy, on 1 to 4 ranks, in 1 to 4 micro-batches. The quick program takes every
// strategy, rank count, micro-batch count and placement once; RESHARD_ALL=1 takes all combinations.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "examples/gpt/program.h"
#include "reshard/job.h"
#include "reshard/runtime.h"

namespace gpt {
namespace {

struct Case {
  std::string strategy;
  int ranks, microbatches;
  bool tied;
  std::string units;
};

std::string name_of(const testing::TestParamInfo<Case>& row) {
  const Case& c = row.param;
  return fmt::format("{}_{}_ranks_{}_microbatches_{}_{}", c.strategy, c.ranks, c.microbatches, c.tied ? "tied" : "untied", c.units);
}

std::vector<Case> cases() {
  const std::vector<std::string> strategies = {"zero3", "zero2", "root_no_reshard", "zero1", "replicate"};
  std::vector<Case> all;
  if (std::getenv("RESHARD_ALL") == nullptr) {
    int i = 0;
    for (const std::string& strategy : strategies) {
      all.push_back({strategy, i % 4 + 1, 1 << i % 3, i % 2 == 0, "root"});
      all.push_back({strategy, 4 - i % 4, 1 << (i + 1) % 3, false, i % 2 == 0 ? "split" : "root"});
      ++i;
    }
    return all;
  }
  for (const std::string& strategy : strategies) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int microbatches : {1, 2, 4}) {
        all.push_back({strategy, ranks, microbatches, true, "root"});
        all.push_back({strategy, ranks, microbatches, false, "root"});
        all.push_back({strategy, ranks, microbatches, false, "split"});
      }
    }
  }
  return all;
}

std::string folder_of(const Case& c) {
  return std::string(RESHARD_SOURCE_DIR) + "/tests/golden/gpt/" + (c.tied ? "tied/" : "untied/");
}

// The golden run as a job file, as anybody would write it.
std::string job_text(const Case& c, const nlohmann::json& run, const std::string& optimizer) {
  const nlohmann::json &m = run["model"], &o = run["optimizer"];
  return fmt::format(
      "strategy.plugin = \"{}/plugins/{}.so\"\n"
      "[mesh]\nranks = {}\n"
      "[train]\nsteps = {}\nglobal_batch = {}\nmicrobatches = {}\n"
      "[optimizer]\nname = \"{}\"\nlr = {}\nbetas = [{}, {}]\neps = {}\nweight_decay = {}\nclip_norm = {}\n"
      "[model]\nlayers = {}\nwidth = {}\nheads = {}\nsequence = {}\nvocabulary = {}\ntied = {}\nunits = \"{}\"\n",
      RESHARD_BINARY_DIR, c.strategy, c.ranks, run["steps"].size(), run["batch"].get<int>(), c.microbatches, optimizer,
      o["lr"].get<double>(), o["beta1"].get<double>(), o["beta2"].get<double>(), o["eps"].get<double>(),
      o["weight_decay"].get<double>(), o["clip_norm"].get<double>(), m["layers"].get<int>(), m["width"].get<int>(),
      m["heads"].get<int>(), m["sequence"].get<int>(), m["vocabulary"].get<int>(), c.tied, c.units);
}

// An optimizer of the program's own that makes each parameter its gradient, so that reading one shows the other.
class ShowGradients final : public reshard::Optimizer {
 public:
  std::string name() const override { return "show_gradients"; }
  std::vector<std::string> state_names() const override { return {}; }
  void update(const reshard::Fragment& fragment, const reshard::StepInfo&) const override {
    std::copy_n(fragment.gradient, fragment.length, fragment.values);
  }
};

struct Result {
  std::vector<reshard::StepResult> steps;
  std::map<std::string, std::vector<float>> parameters;
  reshard::Report report;
};

// Runs the golden job, or so many of its steps with ShowGradients.
Result train(const Case& c, const nlohmann::json& run, int64_t gradients_of_steps = 0) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("reshard_gpt_parity_{}.toml", getpid());
  std::ofstream(file) << job_text(c, run, gradients_of_steps > 0 ? "program" : "adamw");
  Program program;
  for (const Program::Flag& flag : program.flags()) {
    if (flag.name == "--from") *flag.target = folder_of(c) + "parameters.safetensors";
    if (flag.name == "--tokens") *flag.target = folder_of(c) + "tokens.safetensors";
  }
  reshard::Tables tables;
  program.declare(tables);
  reshard::Job job = reshard::read_job(file.string(), tables);
  std::filesystem::remove(file);
  if (gradients_of_steps > 0) job.train.steps = gradients_of_steps;
  const reshard::Model model = program.model(job, tables);
  Result result;
  reshard::launch(job, [&](reshard::Rank& rank) {
    reshard::Runtime runtime(job, model, rank, gradients_of_steps > 0 ? std::make_unique<ShowGradients>() : nullptr);
    const auto trainer = program.trainer(job, runtime);
    trainer->fill(runtime);
    for (int64_t step = 0; step < job.train.steps; ++step) {
      const reshard::StepResult done =
          runtime.step([&](reshard::MicroBatch at) { return trainer->micro_batch(runtime, at); });
      if (rank.first()) result.steps.push_back(done);
    }
    EXPECT_EQ(trainer->evaluate(runtime), std::nullopt);
    EXPECT_EQ(trainer->sample(runtime), "");
    for (const reshard::UnitSpec& unit : model.units()) {
      for (const reshard::Parameter& parameter : unit.parameters) {
        std::vector<float> values = runtime.read(parameter.name);
        if (rank.first()) result.parameters[parameter.name] = std::move(values);
      }
    }
    if (rank.first()) result.report = runtime.report();
  });
  return result;
}

// Every tensor of the file against the one read from the runtime, in relative 2-norm.
void expect_close(const std::map<std::string, std::vector<float>>& got, const std::string& path, double limit) {
  const Safetensors file(path);
  ASSERT_EQ(got.size(), file.tensors().size());
  for (const auto& [name, values] : got) {
    std::vector<float> wanted(values.size());
    file.read(file.tensors().at(name), 0, std::span(wanted));
    double off = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      off += std::pow(static_cast<double>(values[i]) - static_cast<double>(wanted[i]), 2);
      size += std::pow(static_cast<double>(wanted[i]), 2);
    }
    EXPECT_LE(std::sqrt(off / size), limit) << name;
  }
}

class WithPytorch : public testing::TestWithParam<Case> {};

TEST_P(WithPytorch, TwentyStepsAgree) {
  const Case& c = GetParam();
  const nlohmann::json run = nlohmann::json::parse(std::ifstream(folder_of(c) + "run.json"));
  const Result result = train(c, run);
  ASSERT_EQ(result.steps.size(), run["steps"].size());
  for (const reshard::StepResult& step : result.steps) {
    const nlohmann::json& there = run["steps"][static_cast<std::size_t>(step.step)];
    EXPECT_NEAR(step.loss / there["loss"].get<double>(), 1, 1e-5) << "step " << step.step;
    EXPECT_NEAR(step.gradient_norm / there["gradient_norm"].get<double>(), 1, 1e-5) << "step " << step.step;
  }
  expect_close(result.parameters, folder_of(c) + "parameters_end.safetensors", 1e-4);
  // What the example says it keeps is what it keeps, to the byte.
  EXPECT_EQ(result.report.measured.bytes, result.report.predicted.bytes);
}

TEST_P(WithPytorch, FirstGradientsAgree) {
  const Case& c = GetParam();
  const nlohmann::json run = nlohmann::json::parse(std::ifstream(folder_of(c) + "run.json"));
  expect_close(train(c, run, 1).parameters, folder_of(c) + "gradients.safetensors", 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Runs, WithPytorch, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace gpt
