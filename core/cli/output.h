#pragma once

// Where a command's text goes, and how it looks: colours only on a terminal, nothing on stdout beside JSON when JSON
// goes there. Threads: one at a time.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/text.h"

namespace reshard::cli {

// Marks in a text; without colour every function returns its text as it is.
struct Style {
  bool colour = false;
  std::string strong(std::string_view text) const { return marked("1", text); }
  std::string dim(std::string_view text) const { return marked("2", text); }
  std::string warn(std::string_view text) const { return marked("33", text); }
  std::string bad(std::string_view text) const { return marked("31", text); }
  // The table with its header dimmed.
  std::string table(const base::TextTable& table, std::string_view indent = "") const;

 private:
  std::string marked(const char* code, std::string_view text) const;
};

class Output {
 public:
  // `json`: what --json named; "-" keeps stdout for the JSON alone.
  explicit Output(const std::string& json);
  // For tests: text goes to `text`, plain.
  explicit Output(std::FILE* text) : text_(text) {}

  const Style& style() const { return style_; }
  std::FILE* text_file() const { return text_; }  // null: text goes nowhere
  bool terminal() const { return terminal_; }     // of text_file()

  // From here on nothing is printed: another process speaks for all.
  void silence();
  bool silent() const { return silent_; }

  // A launcher gives the first process a terminal of its own, and sends on what is printed there to a file or a pipe,
  // too: plain lines from here on.
  void leave_terminal() { terminal_ = false, style_.colour = false; }

  void print(std::string_view text);

  // To be called when all is printed. Throws Error(io) when some of it, here or by others on text_file(), could not be
  // written. A pipe that nobody reads any more ends the process by SIGPIPE long before, and quietly, as it ends other
  // tools (`| head`); where the parent process ignores that signal it is an error like any other.
  void finish();

 private:
  std::FILE* text_ = nullptr;
  bool terminal_ = false, silent_ = false;
  int failure_ = 0;  // errno of the first print that failed
  Style style_;
};

// Throws Error(io) when the process was started without a stdout: the first file that it opened would become that, and
// would be printed into. Without a stderr, what goes there is dropped from here on.
void check_standard_streams();

// True when `file` is a terminal that shows colours, and the user did not say no (NO_COLOR, TERM=dumb).
bool shows_colour(std::FILE* file);

// Characters that a line on this terminal holds; 0 = unknown.
int terminal_width(std::FILE* file);

// Text from a model or a plugin, made safe to print: control characters but line ends and bytes that are no UTF-8
// become '·'.
std::string safe_text(std::string_view text);

// Rows of words without a header: every column begins at the same place.
std::string rows_text(const std::vector<std::vector<std::string>>& rows, std::string_view indent = "");

// The text with `indent` before each of its lines, one line end at the end.
std::string indented(std::string_view text, std::string_view indent);

}  // namespace reshard::cli
