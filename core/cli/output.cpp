#include "cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "reshard/error.h"

namespace reshard::cli {
namespace {

// The length of the UTF-8 character at `at`, 0 when there is none.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  // Spellings that are too long, surrogates, and what is above U+10FFFF.
  const unsigned char second = byte(at + 1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
  return length;
}

}  // namespace

std::string Style::marked(const char* code, std::string_view text) const {
  if (!colour || text.empty()) return std::string(text);
  return std::string("\033[").append(code).append("m").append(text).append("\033[0m");
}

std::string Style::table(const base::TextTable& table, std::string_view indent) const {
  const std::string text = table.text(indent);
  const std::size_t end = text.find('\n');
  return dim(text.substr(0, end)) + text.substr(end);
}

Output::Output(const std::string& json) {
  if (json == "-") return;
  text_ = stdout;
  terminal_ = isatty(fileno(stdout)) != 0;
  style_.colour = shows_colour(stdout);
}

void Output::silence() {
  text_ = nullptr;
  terminal_ = false;
  silent_ = true;
  style_.colour = false;
}

void Output::print(std::string_view text) {
  if (text_ == nullptr) return;
  const bool written = std::fwrite(text.data(), 1, text.size(), text_) == text.size();
  if ((std::fflush(text_) != 0 || !written) && failure_ == 0) failure_ = errno;
}

void Output::finish() {
  if (text_ == nullptr) return;
  if (std::fflush(text_) != 0 && failure_ == 0) failure_ = errno;
  if (failure_ == 0 && std::ferror(text_) == 0) return;
  throw Error(ErrorCode::io,
              std::string("cannot write all of the output") + (failure_ == 0 ? "" : ": ") +
                  (failure_ == 0 ? "" : std::strerror(failure_)),
              "stdout");
}

void check_standard_streams() {
  const auto closed = [](int descriptor) { return fcntl(descriptor, F_GETFD) == -1 && errno == EBADF; };
  if (closed(STDERR_FILENO)) {
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0 && nowhere != STDERR_FILENO) {
      dup2(nowhere, STDERR_FILENO);
      close(nowhere);
    }
  }
  if (closed(STDOUT_FILENO))
    throw Error(ErrorCode::io, "cannot write the output: it is closed", "stdout",
                "send it to a file, to a pipe, or to /dev/null");
}

bool shows_colour(std::FILE* file) {
  if (isatty(fileno(file)) == 0) return false;
  const char* no = std::getenv("NO_COLOR");
  if (no != nullptr && *no != '\0') return false;
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb";
}

int terminal_width(std::FILE* file) {
  winsize size{};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string safe_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    const auto first = static_cast<unsigned char>(text[at]);
    // C1 controls are two bytes, 0xC2 0x80 … 0x9F.
    const bool control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F ||
                         (first == 0xC2 && length == 2 && static_cast<unsigned char>(text[at + 1]) < 0xA0);
    out += length == 0 || control ? std::string_view("·") : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string rows_text(const std::vector<std::vector<std::string>>& rows, std::string_view indent) {
  const auto seen = [](const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::vector<std::size_t> width;
  for (const std::vector<std::string>& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], seen(row[c]));
  }
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    out += indent;
    for (std::size_t c = 0; c < row.size(); ++c)
      out += c + 1 == row.size() ? row[c] : row[c] + std::string(width[c] - seen(row[c]) + 2, ' ');
    out += '\n';
  }
  return out;
}

std::string indented(std::string_view text, std::string_view indent) {
  std::string out;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (!line.empty()) out.append(indent).append(line);
    out += '\n';
    at = end + 1;
  }
  return out;
}

}  // namespace reshard::cli
