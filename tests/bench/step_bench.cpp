// A whole training step of the GPT example under every strategy, beside the same kernels and a whole AdamW on as many
// unsynchronised threads, without any runtime. The two take turns in blocks of steps in one run, so that ratios are paired.
// Wanted: <= 1.05 under every strategy, on no more ranks than there are cores.
// Arguments: ranks layers width heads sequence batch turns steps [--json]; default: 2 6 384 6 128 4 6 3 (10.8 M parameters).
// --json prints a line per arm: {"mode", "ranks", "params", "step_ms", "ratio_to_plain"}.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "optim/adamw.h"
#include "tests/bench/team.h"
#include "tests/examples/gpt_single.h"
#include "trainer.h"

namespace {

using reshard::Job;
using reshard::Rank;
using reshard::Runtime;

const std::vector<std::string> kStrategies = {"zero3", "zero2", "root_no_reshard", "zero1", "replicate"};

struct Settings {
  int ranks = 2;
  gpt::Shape shape{.layers = 6, .width = 384, .heads = 6, .sequence = 128, .vocabulary = 256, .tied = true};
  int batch = 4, turns = 6, steps = 3;
};

class MadeUpTokens final : public gpt::TokenSource {
 public:
  void training(int64_t step, int64_t number, std::span<int32_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int32_t>((static_cast<int64_t>(i) * 7 + number * 31 + step) % 256);
  }
  void validation(int64_t, int64_t, std::span<int32_t>) const override {}
  bool has_validation() const override { return false; }
};

std::string plugin(const std::string& strategy) { return std::string(RESHARD_BINARY_DIR) + "/plugins/" + strategy + ".so"; }

// The same pass and a whole AdamW, alone on this thread.
class Plain {
 public:
  Plain(const Settings& settings, const gpt::TokenSource& tokens)
      : settings_(settings), tokens_(tokens), network_(settings.shape, {settings.batch, settings.shape.sequence}) {
    for (const std::string& name : network_.names()) {
      gpt::initial_values(settings.shape, 1, name, 0, network_.values(name));
      const auto count = static_cast<int64_t>(network_.values(name).size());
      states_.emplace(name, std::pair<gpt::Floats, gpt::Floats>{gpt::Floats(count), gpt::Floats(count)});
    }
  }

  void step(int rank) {
    std::vector<int32_t> sequence(static_cast<std::size_t>(settings_.shape.sequence) + 1), inputs, targets;
    for (int s = 0; s < settings_.batch; ++s) {
      tokens_.training(done_, rank * settings_.batch + s, sequence);
      inputs.insert(inputs.end(), sequence.begin(), sequence.end() - 1);
      targets.insert(targets.end(), sequence.begin() + 1, sequence.end());
    }
    for (const std::string& name : network_.names()) std::ranges::fill(network_.gradients(name), 0.0F);
    network_.pass(inputs.data(), targets.data());
    for (const std::string& name : network_.names()) {
      float* const state[] = {states_.at(name).first.data(), states_.at(name).second.data()};
      reshard::Fragment all;
      all.name = name;
      all.length = static_cast<int64_t>(network_.values(name).size());
      all.values = network_.values(name).data();
      all.gradient = network_.gradients(name).data();
      all.state = state;
      adamw_.update(all, {.step = done_ + 1, .lr = 1e-4});
    }
    ++done_;
  }

 private:
  const Settings& settings_;
  const gpt::TokenSource& tokens_;
  gpt::SingleProcess network_;
  std::map<std::string, std::pair<gpt::Floats, gpt::Floats>> states_;
  reshard::optim::AdamW adamw_{{}};
  int64_t done_ = 0;
};

// Seconds per step of all ranks together, from a common start to the last one's end; the first step of a turn is left out.
template <typename Step>
double turn(Rank& rank, int steps, const Step& step) {
  step();
  rank.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int s = 0; s < steps; ++s) step();
  const double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / steps;
  return std::ranges::max(rank.exchange(mine));
}

using Times = std::map<std::string, std::vector<double>>;  // by arm, one figure a turn

Times measure(const Settings& settings) {
  Job job;
  job.strategy.plugin = plugin(kStrategies.front());
  job.mesh.ranks = settings.ranks;
  job.train.global_batch = int64_t{settings.batch} * settings.ranks;
  job.optimizer.lr = 1e-4;
  gpt::Setup setup;
  setup.shape = settings.shape;
  setup.batch = {settings.batch, settings.shape.sequence};
  setup.units = gpt::declare_units(settings.shape, gpt::Placement::root, setup.batch);
  setup.units.model.hold_bytes(gpt::Workspace(setup.shape, setup.batch, false, nullptr).floats * 4);
  setup.tokens = std::make_unique<const MadeUpTokens>();
  Times times;
  reshard::launch(job, [&](Rank& rank) {
    Plain plain(settings, *setup.tokens);
    Runtime runtime(job, setup.units.model, rank);
    gpt::Trainer trainer(setup, runtime);
    trainer.fill(runtime);
    for (int t = 0; t <= settings.turns; ++t) {
      // The plain arm stands in the middle of a turn's strategies, now before and now after its neighbours.
      std::vector<std::string> order = kStrategies;
      order.insert(order.begin() + 2, "plain");
      if (t % 2 == 1) std::ranges::reverse(order);
      for (const std::string& arm : order) {
        double seconds = 0;
        if (arm == "plain") {
          seconds = turn(rank, settings.steps, [&] { plain.step(rank.index()); });
        } else {
          runtime.switch_strategy({plugin(arm), {}, ""});
          seconds = turn(rank, settings.steps, [&] {
            runtime.step([&](reshard::MicroBatch at) { return trainer.micro_batch(runtime, at); });
          });
        }
        if (rank.first() && t > 0) times[arm].push_back(seconds);
      }
    }
  });
  return times;
}

void print(const Settings& settings, const Times& times, bool json) {
  const std::vector<double>& plain = times.at("plain");
  const int64_t parameters =
      gpt::declare_units(settings.shape, gpt::Placement::root, {settings.batch, settings.shape.sequence}).model.parameter_count();
  if (!json)
    std::printf("%.1f M parameters, %d ranks, %d sequences of %d per rank; plain = no runtime, unsynchronised; medians of %d turns\n",
                static_cast<double>(parameters) * 1e-6, settings.ranks, settings.batch, settings.shape.sequence, settings.turns);
  std::vector<std::string> arms{"plain"};
  arms.insert(arms.end(), kStrategies.begin(), kStrategies.end());
  for (const std::string& arm : arms) {
    std::vector<double> ratios;
    for (std::size_t t = 0; t < plain.size(); ++t) ratios.push_back(times.at(arm)[t] / plain[t]);
    const double ms = reshard::bench::median(times.at(arm)) * 1e3, ratio = reshard::bench::median(ratios);
    if (json)
      std::printf("{\"mode\": \"%s\", \"ranks\": %d, \"params\": %lld, \"step_ms\": %.2f, \"ratio_to_plain\": %.3f}\n",
                  arm.c_str(), settings.ranks, static_cast<long long>(parameters), ms, ratio);
    else
      std::printf("%-16s %8.1f ms  %5.3f of plain  (%.3f ... %.3f)\n", arm.c_str(), ms, ratio,
                  *std::ranges::min_element(ratios), *std::ranges::max_element(ratios));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool json = false;
  int* const fields[] = {&settings.ranks,          &settings.shape.layers, &settings.shape.width, &settings.shape.heads,
                         &settings.shape.sequence, &settings.batch,        &settings.turns,       &settings.steps};
  std::size_t next = 0;
  for (int a = 1; a < argc; ++a) {
    if (std::strcmp(argv[a], "--json") == 0) {
      json = true;
    } else if (next < std::size(fields)) {
      *fields[next++] = std::max(1, std::atoi(argv[a]));
    }
  }
  try {
    print(settings, measure(settings), json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
