// The scheduler's ops, reduced to gather, free, shrink, reduce and all-reduce by unit, are what PyTorch's FSDP2 issued,
// event for event, for every trace of tests/golden/fsdp2 and of the files in RESHARD_TRACES=FILE[:FILE…].

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schedule/verify.h"
#include "tests/schedule/trace_file.h"
#include "tests/schedule/plain_unit.h"

namespace reshard::schedule {
namespace {

// Feeds the hooks of the traced program to the scheduler and writes its ops down as events.
class TracedProgram {
 public:
  explicit TracedProgram(const Trace& trace) : trace_(trace) { drive(trace.microbatches, {}); }

  // The first step records nothing: PyTorch's traces are of the step after a warm-up.
  std::vector<std::string> run() {
    train(trace_.microbatches);
    events_.clear();
    train(trace_.microbatches);
    if (trace_.evaluate_between) {
      // The step after it may have another number of micro-batches: a run that goes on, so the order is known.
      const int then = microbatches_after_evaluation();
      drive(then, scheduler_->recorded_order());
      events_.push_back("evaluate");
      hook(Hook::begin_evaluation);
      forward();
      hook(Hook::end_evaluation);
      train(then);
    }
    return events_;
  }

 private:
  void drive(int microbatches, std::vector<int> recorded) {
    const Step next = step(trace_, microbatches);
    scheduler_.emplace(next, std::move(recorded));
    verifier_.emplace(next);
  }

  int microbatches_after_evaluation() const {
    const auto evaluate = std::find(trace_.events.begin(), trace_.events.end(), "evaluate");
    return static_cast<int>(std::count_if(evaluate, trace_.events.end(),
                                          [](const std::string& event) { return event.starts_with("micro_batch "); }));
  }

  static Step step(const Trace& trace, int microbatches) {
    Step step;
    step.shards = trace.shards;
    step.replicas = trace.ranks / trace.shards;
    step.microbatches = microbatches;
    step.all_reduce = trace.all_reduce;
    for (std::size_t u = 0; u < trace.units.size(); ++u) {
      const TracedUnit& unit = trace.units[u];
      step.units.push_back(plain_unit(unit.decision, unit.empty ? 0 : 256, !unit.frozen));
      step.forward_order.push_back(static_cast<int>(u));
    }
    return step;
  }

  void train(int microbatches) {
    hook(Hook::begin_step);
    for (int m = 0; m < microbatches; ++m) {
      events_.push_back(fmt::format("micro_batch {}", m));
      hook(Hook::begin_micro_batch);
      forward();
      backward();
    }
    hook(Hook::reduce);
    hook(Hook::update);
    events_.push_back("update");
    hook(Hook::end_step);
  }

  void forward() {
    hook(Hook::before_forward, 0);
    for (int unit = 1; unit < count(); ++unit) {
      hook(Hook::before_forward, unit);
      hook(Hook::after_forward, unit);
    }
    hook(Hook::after_forward, 0);
  }

  void backward() {
    hook(Hook::before_backward, 0);
    for (int unit = count() - 1; unit >= 1; --unit) backward(unit);
    if (trace_.units[0].recompute) recompute(0);
    hook(Hook::after_backward, 0);
  }

  void backward(int unit) {
    hook(Hook::before_backward, unit);
    if (trace_.units[static_cast<std::size_t>(unit)].recompute) recompute(unit);
    hook(Hook::after_backward, unit);
  }

  void recompute(int unit) {
    hook(Hook::before_forward, unit);
    hook(Hook::after_forward, unit);
  }

  void hook(Hook hook, int unit = -1) {
    const std::span<const Op> ops = scheduler_->on(hook, unit);
    verifier_->apply(hook, unit, ops);
    for (const Op& op : ops) note(op);
  }

  void note(const Op& op) {
    if (op.unit < 0) return;
    const TracedUnit& unit = trace_.units[static_cast<std::size_t>(op.unit)];
    switch (op.kind) {
      case OpKind::gather: return events_.push_back(fmt::format("gather {} {}", unit.name, op.ranks));
      case OpKind::free: return events_.push_back("free " + unit.name);
      case OpKind::shrink: return events_.push_back(fmt::format("shrink {} {}", unit.name, op.ranks));
      case OpKind::reduce: return events_.push_back(fmt::format("reduce {} {}", unit.name, op.ranks));
      case OpKind::all_reduce: return events_.push_back(fmt::format("all_reduce {} {}", unit.name, op.ranks));
      case OpKind::forward_begin: return events_.push_back("forward " + unit.name.substr(0, unit.name.find(", ")));
      case OpKind::backward_end:  // PyTorch sees no backward of a unit that owns nothing
        if (!unit.empty) events_.push_back("backward " + unit.name);
        return;
      default: return;
    }
  }

  int count() const { return static_cast<int>(trace_.units.size()); }

  const Trace& trace_;
  std::optional<Scheduler> scheduler_;
  std::optional<Verifier> verifier_;
  std::vector<std::string> events_;
};

std::string difference(const std::vector<std::string>& ours, const std::vector<std::string>& theirs) {
  std::size_t at = 0;
  while (at < ours.size() && at < theirs.size() && ours[at] == theirs[at]) ++at;
  std::string text = fmt::format("event {} differs\n{:>5}  {:32}{}\n", at, "", "PyTorch", "Reshard");
  const std::size_t from = at < 4 ? 0 : at - 4, to = std::min(std::max(ours.size(), theirs.size()), at + 5);
  for (std::size_t i = from; i < to; ++i)
    text += fmt::format("{:>5}  {:32}{}\n", i, i < theirs.size() ? theirs[i] : "-", i < ours.size() ? ours[i] : "-");
  return text;
}

void compare(const std::vector<Trace>& traces) {
  for (const Trace& trace : traces) {
    SCOPED_TRACE("trace " + trace.name);
    try {
      const std::vector<std::string> ours = TracedProgram(trace).run();
      EXPECT_TRUE(ours == trace.events) << difference(ours, trace.events);
      std::cout << fmt::format("  {:32} {:3} events {}\n", trace.name, trace.events.size(),
                               ours == trace.events ? "equal" : "DIFFER");
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

const char* const kGolden = RESHARD_SOURCE_DIR "/tests/golden/fsdp2/traces.json";
const char* const kMore = RESHARD_SOURCE_DIR "/tests/schedule/fsdp2_more.json";

TEST(Fsdp2Traces, EveryRecordedTraceIsReproducedEventForEvent) {
  const std::vector<Trace> traces = read_traces(kGolden);
  EXPECT_GE(traces.size(), 19U);
  compare(traces);
}

TEST(Fsdp2Traces, SoAreMoreCombinationsOfRecomputeFreezingShrinkingReplicasAndEvaluations) {
  const std::vector<Trace> traces = read_traces(kMore);
  EXPECT_GE(traces.size(), 52U);
  compare(traces);
}

std::vector<std::string> files_of(const std::string& list) {
  std::vector<std::string> files;
  std::stringstream rest(list);
  for (std::string path; std::getline(rest, path, ':');)
    if (!path.empty()) files.push_back(path);
  return files;
}

TEST(Fsdp2Traces, AListOfFilesIsReadAsPathsAre) {
  EXPECT_EQ(files_of("a.json::/b/c.json:"), (std::vector<std::string>{"a.json", "/b/c.json"}));
  EXPECT_EQ(files_of(""), std::vector<std::string>{});
}

// RESHARD_TRACES=FILE[:FILE…] names files of the same form; without it, it is as if it named the bundled ones.
TEST(Fsdp2Traces, SoIsEveryTraceOfTheFilesInTheEnvironment) {
  const char* given = std::getenv("RESHARD_TRACES");
  const bool none = given == nullptr || *given == '\0';
  const std::vector<std::string> files = files_of(none ? std::string(kGolden) + ":" + kMore : given);
  ASSERT_FALSE(files.empty());
  for (const std::string& path : files) {
    std::cout << path << '\n';
    try {
      compare(read_traces(path));
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

std::string refusal(const std::string& text) {
  try {
    parse_traces(text, "t.json");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

std::string with(const std::string& settings, const std::string& unit, const std::string& events) {
  const std::string rest =
      R"("after_backward": "free", "reduce": "each", "prefetch_forward": 0, "prefetch_backward": 1)";
  return fmt::format(
      R"({{"a": {{"settings": {{{}"micro_batches": 1, "all_reduce": "each", "root": {{"name": "root", "after_forward": "free", {}}},
      "units": [{{"name": "b", {}{}}}]}}, "events": {}}}}})",
      settings, rest, unit, rest, events);
}

TEST(Fsdp2Traces, AMalformedFileIsAClearError) {
  const std::string mesh = R"("ranks": 4, "shard_over": 4, )", free = R"("after_forward": "free", )",
                    events = R"([["update"]])";
  EXPECT_EQ(refusal(with(mesh, free, events)), "accepted");
  EXPECT_EQ(refusal("{").substr(0, 18), "t.json: not JSON: ");
  EXPECT_EQ(refusal("[]"), "t.json: must be an object of traces that is not empty");
  EXPECT_EQ(refusal(R"({"a": 3})"), "t.json: trace \"a\": must be an object");
  EXPECT_EQ(refusal(R"({"a": {"events": []}})"), "t.json: trace \"a\": has no \"settings\"");
  EXPECT_EQ(refusal(with(R"("shard_over": 4, )", free, events)), "t.json: trace \"a\": settings: has no \"ranks\"");
  EXPECT_EQ(refusal(with(R"("ranks": "4", "shard_over": 4, )", free, events)),
            "t.json: trace \"a\": settings: \"ranks\" must be an integer from 1 to 1048576");
  EXPECT_EQ(refusal(with(R"("ranks": 4, "shard_over": 3, )", free, events)),
            "t.json: trace \"a\": settings: \"shard_over\" = 3 does not divide the 4 ranks");
  EXPECT_EQ(refusal(with(R"("stream": 1, )" + mesh, free, events)),
            "t.json: trace \"a\": settings: unknown key \"stream\"");
  EXPECT_EQ(refusal(with(mesh, R"("after_forward": 3, )", events)),
            "t.json: trace \"a\": settings: unit 0: \"after_forward\" = 3 does not divide the 4 shards");
  EXPECT_EQ(refusal(with(mesh, R"("after_forward": true, )", events)),
            "t.json: trace \"a\": settings: unit 0: \"after_forward\" must be \"free\", \"keep\" or an integer");
  EXPECT_EQ(refusal(with(mesh, free, R"([["update"], "update"])")),
            "t.json: trace \"a\": event 1: must be a list of a word, a unit and a number");
  EXPECT_EQ(refusal(with(mesh, free, "[]")), "t.json: trace \"a\": \"events\" must be a list that is not empty");
  EXPECT_THROW(read_traces("/nowhere/t.json"), std::runtime_error);
}

}  // namespace
}  // namespace reshard::schedule
