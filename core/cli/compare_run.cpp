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

  // result.stop_requested: options.stop said so, and every rank ends after this step.
  StepResult step() {
    const StepResult result = runtime_.step([&](MicroBatch at) {
      const double loss = micro_batch_(at);
      if (run_.options.stop && run_.options.stop()) runtime_.request_stop();
      return loss;
    });
    ++done_;
    if (rank_.first() && run_.options.progress) run_.options.progress(done_, run_.total_steps);
    return result;
  }

  // No turn is finished yet.
  [[noreturn]] void fail_stopped() const {
    throw Error(ErrorCode::interrupted, fmt::format("stopped after {} of {} steps", done_, run_.total_steps), "",
                "nothing is compared yet");
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

  // False: options.stop ended the run before this turn did, which then counts for nothing.
  bool block(int arm, int block) {
    TrafficByOp before;
    std::vector<TurnStep> steps;
    const std::size_t replans = training_.runtime().report().replans.size();
    bool new_plan = false;  // by the last step: none was made under it
    for (int i = 0; i < run_.options.block_steps; ++i) {
      if (i == 1) {  // what the first step of a block still had to do is not the plan's own
        training_.runtime().reset_peak();
        before = training_.runtime().report().traffic;
      }
      const StepResult step = training_.step();
      const std::vector<double> seconds = rank_.exchange(step.seconds);
      steps.push_back(
          {arm, block, i > 0, step.loss, *std::max_element(seconds.begin(), seconds.end()), step.seconds_exposed});
      stopped_ = step.stop_requested;
      new_plan = step.decided_anew;
      if (stopped_ && i + 1 < run_.options.block_steps) return false;
    }
    const Report report = training_.runtime().report();
    const MemoryPeak peak = of_fullest_rank(rank_, report.measured);
    if (rank_.first()) {
      measured_.steps.insert(measured_.steps.end(), steps.begin(), steps.end());
      ArmMeasured& all = measured_.arms[static_cast<std::size_t>(arm)];
      if (!new_plan && peak.total() > all.peak.total()) all.peak = peak, all.predicted = report.predicted;
      for (std::size_t i = replans; i < report.replans.size(); ++i)
        ++all.replans, all.adds_alike = all.adds_alike && report.replans[i].adds_alike;
      add(all.traffic, report.traffic, before);
      ++all.blocks;
    }
    ++finished_;
    return !stopped_;
  }

  // Every turn, or as many as options.stop allows: then it returns false. Throws Error(interrupted) when that is none.
  bool run() {
    for (int block_index = 0; block_index < run_.options.blocks; ++block_index)
      for (const int arm : run_.turns) {
        training_.switch_to(arm);
        if (block(arm, block_index)) continue;
        if (finished_ == 0) training_.fail_stopped();
        return finished_ == run_.turns.size() * static_cast<std::size_t>(run_.options.blocks);
      }
    return true;
  }

 private:
  const CompareRun& run_;
  RankTraining& training_;
  Rank& rank_;
  Measured& measured_;
  bool stopped_ = false;
  std::size_t finished_ = 0;  // turns
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
      if (result.stop_requested) training.fail_stopped();
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
    if (!turns.run()) return;  // the parameters of the reference are those after the last step
    training.read_all([&](const std::string& name, const std::vector<float>& values) {
      if (rank.first()) compare_values(name, values, reference.parameters.next(values.size()), measured);
    });
  });
}

}  // namespace reshard::cli
