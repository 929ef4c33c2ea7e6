#pragma once

// Reads a file of FSDP2 traces (tests/golden/fsdp2): per trace the settings that drive the scheduler, in Reshard's
// words, and the events: what the program did (micro-batches, evaluations, updates), and what PyTorch issued for it. A
// file that is not of this form is an error that says where and why.

#include <string>
#include <vector>

#include "schedule/scheduler.h"

namespace reshard::schedule {

struct TracedUnit {
  std::string name;  // "norm, out" owns two modules; its forward is seen at the first
  Decision decision;
  bool frozen = false, recompute = false, empty = false, read_in_backward = true;
  bool unused = false;  // the program does not run it
};

struct TracedStep {
  int evaluations = 0;   // before it
  int microbatches = 0;  // 0, in the last one alone: the trace ends with evaluations
};

struct Trace {
  std::string name;
  int ranks = 1, shards = 1, microbatches = 1;
  AllReduce all_reduce = AllReduce::each;
  std::vector<TracedUnit> units;    // the root first, then in forward order
  std::vector<TracedStep> steps;
  std::vector<std::string> events;  // "gather blocks.0 2"
  std::string skipped;              // why there is nothing to compare; else empty, and all of the above is set
};

// Throws std::runtime_error: "FILE: trace \"default\": settings: …".
std::vector<Trace> read_traces(const std::string& path);
std::vector<Trace> parse_traces(const std::string& text, const std::string& path);

}  // namespace reshard::schedule
