#pragma once

// The rows that a run shows while it runs. On a terminal one row is written over and over and kept at validations and
// at the end; elsewhere a row is a plain line, about twenty of them. Threads: the one that runs the steps.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>

#include "cli/output.h"
#include "reshard/runtime.h"

namespace reshard::cli {

struct ProgressRow {
  int64_t step = 0;  // from 0, as everywhere
  double loss = 0;
  std::optional<double> validation;
  double gradient_norm = 0, lr = 0;
  double samples_per_second = 0;  // of late
  double seconds_left = 0;
};

// `sample_unit`: what rates are counted in; empty: there are none. A validation loss stands at the end of its row.
std::string header_text(const std::string& sample_unit);
std::string row_text(const ProgressRow& row, const std::string& sample_unit);

// A line that writes itself over on a terminal.
class LiveLine {
 public:
  LiveLine(std::FILE* file, bool terminal) : file_(file), terminal_(terminal) {}
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  bool overwrites() const { return file_ != nullptr && terminal_; }
  void show(const std::string& text);  // terminals only: at most ten times a second
  void keep(const std::string& text);  // a line that stays
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* file_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point last_{};
};

class Progress {
 public:
  struct Settings {
    int64_t steps = 0;
    int64_t samples_per_step = 0;
    std::string sample_unit;  // empty: no rates
  };
  Progress(const Output& output, Settings settings);

  void step(const StepResult& step, const std::optional<double>& validation);
  void note(const std::string& text);  // a line between the rows
  void finish();                       // ends the row that is being written over

 private:
  ProgressRow row_of(const StepResult& step, const std::optional<double>& validation);
  bool line_due(int64_t step);

  Settings settings_;
  LiveLine line_;
  Style style_;
  bool header_shown_ = false;
  std::string last_row_;  // not kept yet
  std::deque<double> recent_seconds_;
  std::chrono::steady_clock::time_point last_line_;
};

}  // namespace reshard::cli
