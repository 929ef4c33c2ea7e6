// The scheduler's ops, reduced to gather, free, shrink, reduce and all-reduce by unit, are what PyTorch's FSDP2 issued,
// event for event, for every trace of tests/golden/fsdp2 and of the files in RESHARD_TRACES=FILE[:FILE…].

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/schedule/trace_file.h"
#include "tests/schedule/traced_program.h"

namespace reshard::schedule {
namespace {

std::string difference(const std::vector<std::string>& ours, const std::vector<std::string>& theirs) {
  std::size_t at = 0;
  while (at < ours.size() && at < theirs.size() && ours[at] == theirs[at]) ++at;
  std::string text = fmt::format("event {} differs\n{:>5}  {:32}{}\n", at, "", "PyTorch", "Reshard");
  const std::size_t from = at < 4 ? 0 : at - 4, to = std::min(std::max(ours.size(), theirs.size()), at + 5);
  for (std::size_t i = from; i < to; ++i)
    text += fmt::format("{:>5}  {:32}{}\n", i, i < theirs.size() ? theirs[i] : "-", i < ours.size() ? ours[i] : "-");
  return text;
}

std::string remarks(const Reading& reading, int64_t unused) {
  std::string text;
  if (reading.order == BackwardOrder::since_step) text += ", prefetched by the passes since the step before";
  if (reading.lists_end) text += ", prefetched within lists";
  if (unused > 0) text += fmt::format(", {} gathered in vain", unused);
  return text;
}

void compare(const Trace& trace) {
  const Reading reading = closest_reading(trace);
  TracedProgram program(trace, reading);
  const std::vector<std::string> ours = program.run(), theirs = moving_events(trace);
  EXPECT_TRUE(ours == theirs) << difference(ours, theirs);
  // The default order does the same, but for what FSDP2 gathers in vain.
  TracedProgram better(trace, {BackwardOrder::micro_batch, reading.lists_end});
  const std::vector<std::string> without = better.run();
  EXPECT_TRUE(without == program.useful_events()) << difference(without, program.useful_events());
  EXPECT_EQ(better.unused(), 0);
  EXPECT_EQ(program.unused(), static_cast<int64_t>(ours.size() - program.useful_events().size()));
  std::cout << fmt::format("  {:32} {:3} events {}{}\n", trace.name, theirs.size(),
                           ours == theirs ? "equal" : "DIFFER", remarks(reading, program.unused()));
}

void compare(const std::vector<Trace>& traces) {
  for (const Trace& trace : traces) {
    SCOPED_TRACE("trace " + trace.name);
    try {
      if (trace.skipped.empty())
        compare(trace);
      else
        std::cout << fmt::format("  {:32} skipped: {}\n", trace.name, trace.skipped);
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
  EXPECT_GE(traces.size(), 86U);
  compare(traces);
}

// What FSDP2 gathers in vain after an evaluation, and over the micro-batches of its ZeRO-1 recipe.
TEST(Fsdp2Traces, ThePrefetchesOfASplitModelThatFsdp2ThrowsAwayAreCounted) {
  std::map<std::string, int64_t> unused;
  for (const Trace& trace : read_traces(kMore)) {
    if (!trace.skipped.empty()) continue;
    TracedProgram program(trace, closest_reading(trace));
    program.run();
    unused[trace.name] = program.unused();
  }
  EXPECT_EQ(unused.at("split_eval"), 1);
  EXPECT_EQ(unused.at("split_zero1"), 1);
  EXPECT_EQ(unused.at("split_zero1_eval"), 2);
  EXPECT_EQ(unused.at("split_keep_back"), 0);  // the recipe without set_is_last_backward
  EXPECT_EQ(unused.at("eval_true"), 0);        // what lies behind the first block is the root, which is whole
  EXPECT_EQ(unused.at("program_steps"), 0);
}

TEST(Fsdp2Traces, WhatHasNoSequenceIsSkippedWithAReason) {
  std::vector<std::string> skipped;
  for (const char* path : {kGolden, kMore})
    for (const Trace& trace : read_traces(path))
      if (!trace.skipped.empty()) skipped.push_back(trace.name + ": " + trace.skipped);
  EXPECT_EQ(skipped, (std::vector<std::string>{
                         "not_a_divisor: PyTorch has no sequence: [\"error\",\"ValueError\",\"If passing "
                         "reshard_after_forward as an int, it should be a factor of 4, not 3\"]"}));
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
                    events = R"([["micro_batch", 0], ["update"]])";
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
  EXPECT_EQ(refusal(with(mesh, free, R"([["micro_batch", 0], "update"])")),
            "t.json: trace \"a\": event 1: must be a list of a word, a unit and a number");
  const std::string inside = R"([["micro_batch", 0], ["evaluate"], ["micro_batch", 1], ["update"]])";
  EXPECT_EQ(parse_traces(with(mesh, free, inside), "t.json").at(0).skipped,
            "it evaluates between the micro-batches of a step; a forward-only pass stands between steps");
  EXPECT_EQ(refusal(with(mesh, free, "[]")), "t.json: trace \"a\": \"events\" must be a list that is not empty");
  EXPECT_EQ(refusal(with(mesh, free, R"([["micro_batch", 0], ["scatter", "b", 4], ["update"]])")),
            "t.json: trace \"a\": event 1: unknown event \"scatter b 4\"");
  EXPECT_EQ(refusal(with(mesh, free, R"([["micro_batch", 1], ["update"]])")),
            "t.json: trace \"a\": event 0: \"micro_batch 1\" comes where \"micro_batch 0\" is due");
  EXPECT_EQ(refusal(with(mesh, free, R"([["micro_batch", 0]])")),
            "t.json: trace \"a\": event 0: the last step has no update");
  EXPECT_EQ(refusal(with(mesh, free, R"([["update"]])")),
            "t.json: trace \"a\": event 0: an update of a step without micro-batches");
  EXPECT_EQ(refusal(with(mesh, free, R"([["micro_batch", 0], ["micro_batch", 1], ["update"]])")),
            "t.json: trace \"a\": settings: \"micro_batches\" = 1, but the first step has 2");
  EXPECT_EQ(refusal(with(R"("evaluate_between": true, )" + mesh, free, events)),
            "t.json: trace \"a\": settings: \"evaluate_between\" is true, but the events evaluate nothing");
  EXPECT_THROW(read_traces("/nowhere/t.json"), std::runtime_error);
}

}  // namespace
}  // namespace reshard::schedule
