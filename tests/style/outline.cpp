#include "tests/style/outline.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace reshard::style {
namespace {

enum class Scope { names, type, function, value };  // value: braces inside an expression

struct Frame {
  Scope scope = Scope::names;
  std::string head;  // what stood before the brace
  int head_line = 0;
};

std::string squeeze(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (space && (out.empty() || out.back() == ' ')) continue;
    out.push_back(space ? ' ' : c);
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// Without template<…> in front, [[attributes]] and what stands between angle brackets.
std::string plain(std::string_view head) {
  std::string out;
  int angle = 0;
  for (std::size_t i = 0; i < head.size(); ++i) {
    const char c = head[i];
    const bool opens = c == '<' && i > 0 && (is_word_char(head[i - 1]) || head[i - 1] == ' ') &&
                       head.find('>', i) != std::string_view::npos && head.find("operator") == std::string_view::npos;
    if (opens)
      ++angle;
    else if (c == '>' && angle > 0 && head[i - 1] != '-')
      --angle;
    else if (angle == 0)
      out.push_back(c);
  }
  for (std::size_t open; (open = out.find("[[")) != std::string::npos;) {
    const std::size_t close = out.find("]]", open);
    if (close == std::string::npos) break;
    out.erase(open, close + 2 - open);
  }
  out = squeeze(out);
  while (starts_with(out, "template ")) out = out.substr(9);
  return out;
}

std::string first_word(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_word_char(text[end])) ++end;
  return std::string(text.substr(0, end));
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool left = at == 0 || !is_word_char(text[at - 1]);
    const bool right = at + word.size() >= text.size() || !is_word_char(text[at + word.size()]);
    if (left && right) return true;
  }
  return false;
}

// The first of `wanted` that is inside no parentheses and no square brackets.
std::size_t find_outside(std::string_view text, char wanted) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text[i] == wanted) return i;
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
  }
  return std::string_view::npos;
}

// "X::X() : a_(1), b_" in front of a brace: the brace belongs to b_, not to the body.
bool is_member_initialiser(std::string_view head) {
  const std::size_t close = head.find(')');
  if (close == std::string_view::npos) return false;
  std::size_t colon = head.find(':', close);
  while (colon != std::string_view::npos && colon + 1 < head.size() && head[colon + 1] == ':')
    colon = head.find(':', colon + 2);
  if (colon == std::string_view::npos || head.find('?', close) < colon) return false;
  return is_word_char(head.back()) || head.back() == '>';
}

// "RESHARD_STRATEGY(X, …)" and a line's end: a macro that stands alone, without a semicolon.
bool is_macro_line(std::string_view head) {
  if (head.empty() || head.back() != '\n' || squeeze(head).back() != ')') return false;
  const std::size_t call = std::min(head.find('('), head.size());
  return call > 0 && std::all_of(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(call),
                                 [](char c) { return c == '_' || std::isupper(static_cast<unsigned char>(c)) != 0; });
}

Scope scope_behind(const std::string& raw) {
  static constexpr std::string_view types[] = {"class", "struct", "union", "enum"};
  const std::string head = plain(raw);
  const std::string word = first_word(head);
  if (word == "namespace" || starts_with(head, "inline namespace")) return Scope::names;
  if (word == "extern" && head.find('(') == std::string::npos && head.find('=') == std::string::npos)
    return Scope::names;
  const bool call = head.find('(') != std::string::npos;
  const bool operators = has_word(head, "operator");
  const std::size_t equals = operators ? std::string::npos : find_outside(head, '=');
  for (const std::string_view type : types)
    if ((word == type || starts_with(head, "typedef " + std::string(type))) && equals == std::string::npos &&
        (!call || head.find("alignas") != std::string::npos || head.find("__attribute__") != std::string::npos))
      return Scope::type;
  if (equals != std::string::npos || !call || is_member_initialiser(head)) return Scope::value;
  return Scope::function;
}

// What is declared, without its value: everything before a top-level '=' or the brace that stands for a value.
std::string declared(std::string_view head) {
  std::string text = plain(head);
  if (const std::size_t brace = text.find('{'); brace != std::string::npos) text.resize(brace);
  if (!has_word(text, "operator"))
    if (const std::size_t equals = find_outside(text, '='); equals != std::string::npos) text.resize(equals);
  return squeeze(text);
}

bool is_constant(std::string_view text) {
  if (has_word(text, "constexpr")) return true;
  if (!has_word(text, "const")) return false;
  const std::size_t star = text.rfind('*');
  return star == std::string_view::npos || has_word(text.substr(star), "const");
}

bool is_mutable_variable(std::string_view head, Scope scope) {
  static constexpr std::string_view others[] = {"using",  "typedef",       "namespace", "class",    "struct",
                                                "union",  "enum",          "friend",    "concept",  "requires",
                                                "public", "static_assert", "private",   "protected"};
  std::string text = declared(head);
  if (text.empty() || has_word(text, "template")) return false;
  if (has_word(text, "thread_local")) return !is_constant(text);
  if (scope != Scope::names && !has_word(text, "static")) return false;
  if (scope == Scope::function && first_word(text) != "static") return false;
  const std::string word = first_word(text);
  if (std::find(std::begin(others), std::end(others), word) != std::end(others)) return false;
  const std::size_t call = text.find('(');
  if (call != std::string::npos) {
    if (scope != Scope::function) return false;  // a function's declaration
    text.resize(call);                           // a local variable made by its constructor
  }
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_word_char(text[i]) && (i == 0 || !is_word_char(text[i - 1]))) ++count;
  return count >= 2 && !is_constant(text);
}

class Outliner {
 public:
  explicit Outliner(const Source& source) : text_(source.statements) {}

  Outline run() {
    for (const char c : text_) {
      if (c == '{')
        open();
      else if (c == '}')
        close();
      else if (c == ';' && depth_ == 0)
        end_statement();
      else
        add(c);
      if (c == '\n') ++line_;
    }
    return std::move(out_);
  }

 private:
  Scope scope() const { return frames_.empty() ? Scope::names : frames_.back().scope; }

  void add(char c) {
    if (c == '(') ++depth_;
    if (c == ')' && depth_ > 0) --depth_;
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (head_.empty() && space) return;
    if (!space && depth_ == 0 && is_macro_line(head_)) head_.clear();
    if (head_.empty()) head_line_ = line_;
    head_.push_back(c);
    if (c == ':' && scope() == Scope::type && (head_ == "public:" || head_ == "private:" || head_ == "protected:"))
      head_.clear();
  }

  void open() {
    const bool outside = scope() == Scope::names || scope() == Scope::type;
    Scope inner = Scope::function;
    if (outside)
      inner = depth_ > 0 ? Scope::value : scope_behind(squeeze(head_));
    else
      note_variable();
    frames_.push_back({inner, head_, head_line_});
    depths_.push_back(depth_);
    depth_ = 0;
    head_.clear();
  }

  void close() {
    if (frames_.empty()) return;
    const Frame frame = frames_.back();
    frames_.pop_back();
    depth_ = depths_.back();
    depths_.pop_back();
    head_.clear();
    const bool outside = scope() == Scope::names || scope() == Scope::type;
    const bool lambda = frame.scope == Scope::value && frame.head.find("= [") != std::string::npos;
    if (outside && (frame.scope == Scope::function || lambda))
      out_.functions.push_back({frame.head_line, line_, squeeze(frame.head).substr(0, 60)});
    const bool continues = frame.scope == Scope::value || (!outside && depth_ > 0);
    if (continues) head_ = frame.head + "{}", head_line_ = frame.head_line;
  }

  void end_statement() {
    note_variable();
    head_.clear();
  }

  void note_variable() {
    if (is_mutable_variable(head_, scope() == Scope::value ? Scope::function : scope()))
      out_.mutables.push_back({head_line_, declared(head_)});
  }

  const std::string& text_;
  Outline out_;
  std::vector<Frame> frames_;
  std::vector<int> depths_;
  std::string head_;
  int head_line_ = 1, line_ = 1, depth_ = 0;
};

}  // namespace

Outline outline(const Source& source) {
  return Outliner(source).run();
}

}  // namespace reshard::style
