#include "cli/compare_run.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "cli/rank_run.h"
#include "reshard/error.h"

namespace reshard::cli {
namespace {

// One rank's training: the runtime, and what runs a micro-batch on it.
class RankTraining {
 public:
  RankTraining(const CompareRun& run, Rank& rank, int64_t steps_before)
      : run_(run),
        rank_(rank),
        runtime_(run.job, run.model, rank, run.options.optimizer ? run.options.optimizer() : nullptr),
        micro_batch_(run.training(runtime_)),
        done_(steps_before) {}

  Runtime& runtime() { return runtime_; }

  // From here on the arm's plan runs, the very one whose hash and price are shown. [collective]
  void switch_to(int arm) {
    const PlannedArm& next = run_.arms[static_cast<std::size_t>(arm)];
    const SwitchResult result = runtime_.switch_strategy(next.arm.choice);
    if (result.plan_hash != next.planned.plan.hash())
      throw Error(ErrorCode::plan,
                  fmt::format("{} makes plan {} in its turn, and made plan {} before the run", next.arm.name,
                              result.plan_hash, next.planned.plan.hash()),
                  next.arm.choice.where, "a strategy decides by the problem and its options alone");
  }

  StepResult step() {
    const StepResult result = runtime_.step([&](MicroBatch at) {
      const double loss = micro_batch_(at);
      if (run_.options.stop && run_.options.stop()) runtime_.request_stop();
      return loss;
    });
    ++done_;
    if (rank_.first() && run_.options.progress) run_.options.progress(done_, run_.total_steps);
    if (result.stop_requested)
      throw Error(ErrorCode::interrupted, fmt::format("stopped after {} of {} steps", done_, run_.total_steps), "",
                  "nothing is compared yet");
    return result;
  }

  // Calls `visit` with every parameter's values, in the model's order. [collective]
  void read_all(const std::function<void(const std::string&, const std::vector<float>&)>& visit) {
    for (const UnitSpec& unit : run_.model.units())
      for (const Parameter& parameter : unit.parameters) visit(parameter.name, runtime_.read(parameter.name));
  }

 private:
  const CompareRun& run_;
  Rank& rank_;
  Runtime runtime_;
  std::function<double(MicroBatch)> micro_batch_;
  int64_t done_;
};

void add(Traffic& sum, const Traffic& after, const Traffic& before) {
  sum.count += after.count - before.count;
  sum.bytes += after.bytes - before.bytes;
  sum.seconds += after.seconds - before.seconds;
  sum.seconds_exposed += after.seconds_exposed - before.seconds_exposed;
}

void add(TrafficByOp& sum, const TrafficByOp& after, const TrafficByOp& before) {
  add(sum.gather, after.gather, before.gather);
  add(sum.shrink, after.shrink, before.shrink);
  add(sum.reduce, after.reduce, before.reduce);
  add(sum.all_reduce, after.all_reduce, before.all_reduce);
}

// One rank's way through all turns.
class Turns {
 public:
  Turns(const CompareRun& run, RankTraining& training, Rank& rank, Measured& measured)
      : run_(run), training_(training), rank_(rank), measured_(measured) {}

  void block(int arm, int block) {
    TrafficByOp before;
    for (int i = 0; i < run_.options.block_steps; ++i) {
      if (i == 1) {  // what the first step of a block still had to do is not the plan's own
        training_.runtime().reset_peak();
        before = training_.runtime().report().traffic;
      }
      const StepResult step = training_.step();
      const std::vector<double> seconds = rank_.exchange(step.seconds);
      if (rank_.first())
        measured_.steps.push_back(
            {arm, block, i > 0, step.loss, *std::max_element(seconds.begin(), seconds.end()), step.seconds_exposed});
    }
    const Report report = training_.runtime().report();
    const MemoryPeak peak = of_fullest_rank(rank_, report.measured);
    if (!rank_.first()) return;
    ArmMeasured& all = measured_.arms[static_cast<std::size_t>(arm)];
    all.peak = larger(all.peak, peak);
    add(all.traffic, report.traffic, before);
    all.timed_steps += run_.options.block_steps - 1;
  }

 private:
  const CompareRun& run_;
  RankTraining& training_;
  Rank& rank_;
  Measured& measured_;
};

void compare_values(const std::string& name, const std::vector<float>& values, const std::vector<float>& reference,
                    Measured& measured) {
  double scale = 0, largest = 0;
  bool identical = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    identical = identical && std::bit_cast<uint32_t>(values[i]) == std::bit_cast<uint32_t>(reference[i]);
    scale = std::max(scale, std::fabs(static_cast<double>(reference[i])));
    largest = std::max(largest, std::fabs(static_cast<double>(values[i]) - static_cast<double>(reference[i])));
  }
  if (identical) return;
  const double relative = scale > 0 ? largest / scale : largest;
  if (measured.parameters_identical || relative > measured.largest_difference) {
    measured.largest_difference = relative;
    measured.differing_parameter = name;
  }
  measured.parameters_identical = false;
}

[[noreturn]] void file_failed(const char* what) {
  throw Error(ErrorCode::io, fmt::format("cannot {} the reference run's parameters: {}", what, std::strerror(errno)),
              "temporary folder", "make room there, or name another one in TMPDIR");
}

}  // namespace

ParameterFile::ParameterFile() : file_(std::tmpfile(), &std::fclose) {
  if (!file_) file_failed("store");
}

void ParameterFile::append(const std::vector<float>& values) {
  if (std::fwrite(values.data(), sizeof(float), values.size(), file_.get()) != values.size()) file_failed("store");
}

void ParameterFile::rewind() {
  if (std::fflush(file_.get()) != 0) file_failed("store");
  std::rewind(file_.get());
}

std::vector<float> ParameterFile::next(std::size_t count) {
  std::vector<float> values(count);
  if (std::fread(values.data(), sizeof(float), count, file_.get()) != count) file_failed("read");
  return values;
}

void run_reference(const CompareRun& run, Reference& reference) {
  launch(run.job, [&](Rank& rank) {
    RankTraining training(run, rank, 0);
    training.switch_to(0);
    for (int64_t i = 0; i < run.total_steps / 2; ++i) {
      const StepResult result = training.step();
      if (rank.first()) reference.losses.push_back(result.loss);
    }
    training.read_all([&](const std::string&, const std::vector<float>& values) {
      if (rank.first()) reference.parameters.append(values);
    });
  });
}

void run_turns(const CompareRun& run, Reference& reference, Measured& measured) {
  measured.arms.resize(run.arms.size());
  reference.parameters.rewind();
  launch(run.job, [&](Rank& rank) {
    RankTraining training(run, rank, run.total_steps / 2);
    Turns turns(run, training, rank, measured);
    for (int block = 0; block < run.options.blocks; ++block)
      for (const int arm : run.turns) {
        training.switch_to(arm);
        turns.block(arm, block);
      }
    training.read_all([&](const std::string& name, const std::vector<float>& values) {
      if (rank.first()) compare_values(name, values, reference.parameters.next(values.size()), measured);
    });
  });
}

}  // namespace reshard::cli
