// Two pipeline stages in one process. Each is a launch() of its own, with its own model and two ranks that shard it; a
// stage's ranks hand activations and their gradients to the same ranks of the other, several micro-batches in flight.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string_view>
#include <thread>

#include "reshard/error.h"
#include "reshard/runtime.h"
#include "reshard/text.h"
#include "stage.h"

using namespace pipeline;

static void run(const Job& job, Stage& stage, Links& links, int fail_at) {
  Model model({.name = "stage"});
  for (int l = stage.first; l < stage.last; ++l) {
    const std::string unit = "layer." + std::to_string(l);
    model.add({.name = unit, .parameters = {{unit + ".weight", {kWidth}}}});
  }
  model.compute_only_in(Dtype::fp32);
  launch(job, [&](Rank& rank) {
    try {
      Runtime runtime(job, model, rank);
      runtime.fill([](std::string_view name, int64_t offset, std::span<float> values) {
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = 1 + 0.5F * noise(name[6], offset + static_cast<int64_t>(i));
      });
      Stage mine = stage;
      Seat seat{runtime, stage};
      for (int s = 0; s < kSteps; ++s) {
        if (s == fail_at && rank.index() == 1) throw Error(ErrorCode::data, "a made-up failure", "stage 1, rank 1");
        mine.losses.push_back(runtime.step_in_flight([&] { return seat.step(links); }).loss);
      }
      mine.passes = seat.passes.substr(1);
      mine.report = runtime.report();
      if (rank.first()) stage = std::move(mine);
    } catch (...) {
      links.close();  // whoever waits for this rank in the other stage, and its own stage's ranks, which wait there
      throw;
    }
  });
}

// Both stages on threads of their own; throws what made the first of them fail, not the news of it.
static void run_both(const Job& job, Stage& one, Stage& two, int fail_at) {
  Links links;
  std::exception_ptr failed[2];
  const auto guarded = [&](int i, Stage& stage, int at) {
    try {
      run(job, stage, links, at);
    } catch (...) {
      failed[i] = std::current_exception();
    }
  };
  std::thread other([&] { guarded(0, one, -1); });
  guarded(1, two, fail_at);
  other.join();
  for (const bool news : {false, true})
    for (const std::exception_ptr& failure : failed) try {
        if (failure != nullptr) std::rethrow_exception(failure);
      } catch (const Error& error) {
        if (news || error.code() != ErrorCode::rank_failed) throw;
      }
}

int main(int argc, char** argv) try {
  if (argc != 1 && (argc != 3 || std::string_view(argv[1]) != "--strategy"))
    return std::fputs("usage: pipeline [--strategy NAME]\n", stderr), 2;
  Job job;
  job.strategy.plugin = argc == 3 ? argv[2] : "zero3";
  if (argc == 3) job.places["strategy.plugin"] = {"--strategy", true};
  job.mesh.ranks = kRanks;
  job.train.microbatches = kMicroBatches;
  job.optimizer.lr = 5e-3;
  Links unused;
  Stage whole, one{0, kLayers / 2}, two{kLayers / 2, kLayers};
  run(job, whole, unused, -1);
  run_both(job, one, two, -1);

  base::TextTable table({"program", "passes of a step", "gathers per step", "first loss", "last loss"});
  const auto row = [&](const char* name, const Stage& stage) {
    const bool ends = stage.ends();
    table.add({name, stage.passes, std::to_string(stage.report.traffic.gather.count / kSteps),
               ends ? std::to_string(stage.losses.front()) : "-", ends ? std::to_string(stage.losses.back()) : "-"});
  };
  row("one stage", whole);
  row("two: stage 0", one);
  row("two: stage 1", two);
  std::fputs(table.text().c_str(), stdout);

  bool told = false;
  const auto began = std::chrono::steady_clock::now();
  try {
    run_both(job, one, two, 3);
  } catch (const Error& error) {
    told = error.code() == ErrorCode::data;
    std::printf("stage 1 fails in step 3, and both end: %s\n", error.what());
  }
  const bool soon = std::chrono::steady_clock::now() - began < std::chrono::seconds(5);
  const int64_t gathers = one.report.traffic.gather.count + two.report.traffic.gather.count;
  const bool holds = two.losses == whole.losses && two.losses.back() < two.losses.front() && told && soon &&
                     gathers <= whole.report.traffic.gather.count;
  std::puts(holds ? "holds: the losses of one stage bit for bit, with no gather more" : "does not hold: see the table");
  return holds && std::fflush(stdout) == 0 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "pipeline: %s\n", error.what());
  return exit_code(error.code());
}
