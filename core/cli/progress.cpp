#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "reshard/text.h"

namespace reshard::cli {
namespace {

constexpr int64_t kPlainRows = 20;                          // of a run that is no terminal's, besides validations
constexpr auto kQuietTime = std::chrono::seconds(10);       // a slow run shows a row at least this often
constexpr auto kShowTime = std::chrono::milliseconds(100);  // between two rows on a terminal
constexpr std::size_t kRecent = 20;                         // steps that "of late" means

// The first `width` code points.
std::string cut(const std::string& text, int width) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((text[i] & 0xC0) != 0x80 && ++seen > width) return text.substr(0, i);
  return text;
}

}  // namespace

std::string header_text(const std::string& sample_unit) {
  std::string text = fmt::format("{:>7}  {:>9}  {:>13}  {:>9}", "step", "loss", "gradient norm", "lr");
  if (!sample_unit.empty()) text += fmt::format("  {:>11}", sample_unit + "/s");
  return text + fmt::format("  {:>10}", "time left");
}

std::string row_text(const ProgressRow& row, const std::string& sample_unit) {
  std::string text = fmt::format("{:>7}  {:>9.5f}  {:>13.4f}  {:>9.2e}", base::count_text(row.step), row.loss,
                                 row.gradient_norm, row.lr);
  if (!sample_unit.empty()) text += fmt::format("  {:>11}", base::count_text(std::llround(row.samples_per_second)));
  text += fmt::format("  {:>10}", row.seconds_left > 0 ? base::seconds_text(std::ceil(row.seconds_left)) : "-");
  return row.validation ? text + fmt::format("  validation {:.5f}", *row.validation) : text;
}

void LiveLine::show(const std::string& text) {
  if (!overwrites()) return;
  const auto now = Clock::now();
  if (shown_ && now - last_ < kShowTime) return;
  last_ = now;
  shown_ = true;
  const int width = terminal_width(file_);
  std::fputs(("\r\033[K" + (width > 0 ? cut(text, width - 1) : text)).c_str(), file_);
  std::fflush(file_);
}

void LiveLine::keep(const std::string& text) {
  if (file_ == nullptr) return;
  clear();
  std::fputs((text + "\n").c_str(), file_);
  std::fflush(file_);
}

void LiveLine::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", file_);
  std::fflush(file_);
  shown_ = false;
}

Progress::Progress(const Output& output, Settings settings)
    : settings_(std::move(settings)), line_(output.text_file(), output.terminal()), style_(output.style()) {}

ProgressRow Progress::row_of(const StepResult& step, const std::optional<double>& validation) {
  ProgressRow row{step.step, step.loss, validation, step.gradient_norm, step.lr, 0, 0};
  double sum = 0;
  for (const double seconds : recent_seconds_) sum += seconds;
  const double mean = sum / static_cast<double>(recent_seconds_.size());
  if (mean > 0) row.samples_per_second = static_cast<double>(settings_.samples_per_step) / mean;
  row.seconds_left = mean * static_cast<double>(settings_.steps - row.step - 1);
  return row;
}

bool Progress::line_due(int64_t step) {
  const int64_t every = std::max<int64_t>(1, settings_.steps / kPlainRows);
  const auto now = std::chrono::steady_clock::now();
  const bool due = step + 1 == settings_.steps || step % every == 0 || now - last_line_ >= kQuietTime;
  if (due) last_line_ = now;
  return due;
}

void Progress::step(const StepResult& step, const std::optional<double>& validation) {
  if (!std::exchange(header_shown_, true)) line_.keep(style_.dim(header_text(settings_.sample_unit)));
  recent_seconds_.push_back(step.seconds);
  if (recent_seconds_.size() > kRecent) recent_seconds_.pop_front();
  std::string row = row_text(row_of(step, validation), settings_.sample_unit);
  if (step.skipped) row += style_.warn("  skipped: not finite");
  const bool keep = validation || step.skipped || (line_.overwrites() ? step.step + 1 == settings_.steps : line_due(step.step));
  last_row_.clear();
  if (keep) {
    line_.keep(row);
  } else {
    line_.show(row);
    last_row_ = std::move(row);
  }
}

void Progress::note(const std::string& text) {
  line_.keep(text);
}

void Progress::finish() {
  if (!last_row_.empty()) line_.keep(last_row_);
  last_row_.clear();
  line_.clear();
}

}  // namespace reshard::cli
