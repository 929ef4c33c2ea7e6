#include "tests/style/source.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace reshard::style {
namespace {

constexpr std::string_view kFolders[] = {"core", "sdk", "plugins", "tests", "examples", "cmake", "docs", ".ci"};
constexpr std::string_view kEndings[] = {".h",  ".hpp",  ".c",    ".cpp", ".cc", ".in",  ".txt", ".cmake",
                                         ".md", ".toml", ".json", ".sh",  ".py", ".yml", ".map", ".lds"};

// Reads one file from front to back and fills the three views of it.
class Lexer {
 public:
  Lexer(std::string path, std::string text) {
    out_.path = std::move(path);
    out_.code = text;
    out_.text = std::move(text);
  }

  Source run() {
    while (at_ < size()) step();
    out_.statements = out_.code;
    for (const auto& [first, last] : directive_spans_) blank(out_.statements, first, last);
    return std::move(out_);
  }

 private:
  std::size_t size() const { return out_.text.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < size() ? out_.text[at_ + ahead] : '\0'; }

  static void blank(std::string& text, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last && i < text.size(); ++i)
      if (text[i] != '\n') text[i] = ' ';
  }

  void step() {
    const char c = peek();
    if (c == '/' && (peek(1) == '/' || peek(1) == '*')) return comment();
    if (c == '#' && line_start_) return directive();
    if (c == '"') return string();
    if (c == '\'' && !(at_ > 0 && std::isalnum(static_cast<unsigned char>(out_.text[at_ - 1])) != 0))
      return character();
    advance(1);
  }

  void advance(std::size_t n) {
    for (; n > 0 && at_ < size(); --n, ++at_) {
      if (peek() == '\n')
        ++line_, line_start_ = true;
      else if (peek() != ' ' && peek() != '\t')
        line_start_ = false;
    }
  }

  void comment() {
    const bool block = peek(1) == '*';
    std::size_t end = out_.text.find(block ? "*/" : "\n", at_ + 2);
    end = end == std::string::npos ? size() : end + (block ? 2 : 0);
    const bool was_start = line_start_;
    blank(out_.code, at_, end);
    advance(end - at_);
    line_start_ = line_start_ || was_start;
  }

  void character() {
    std::size_t end = at_ + 1;
    while (end < size() && out_.text[end] != '\'' && out_.text[end] != '\n') end += out_.text[end] == '\\' ? 2 : 1;
    blank(out_.code, at_ + 1, end);
    advance(std::min(end + 1, size()) - at_);
  }

  void string() {
    const bool raw = at_ > 0 && out_.text[at_ - 1] == 'R';
    std::size_t first = at_ + 1, last = first, end = first;
    if (raw) {
      const std::size_t open = out_.text.find('(', at_);
      const std::string close = ")" + out_.text.substr(first, open == std::string::npos ? 0 : open - first) + "\"";
      first = open == std::string::npos ? size() : open + 1;
      last = std::min(out_.text.find(close, first), size());
      end = std::min(last + close.size(), size());
    } else {
      while (last < size() && out_.text[last] != '"' && out_.text[last] != '\n')
        last += out_.text[last] == '\\' ? 2 : 1;
      last = std::min(last, size());
      end = std::min(last + 1, size());
    }
    out_.literals.push_back({line_, out_.text.substr(first, last - first)});
    blank(out_.code, at_ + 1, end > 0 ? end - 1 : 0);
    advance(end - at_);
  }

  // An #include is taken whole; of another directive only the words are noted, and lexing goes on behind its name.
  void directive() {
    std::size_t end = at_;
    while (end < size() && out_.text[end] != '\n') end += out_.text[end] == '\\' && end + 1 < size() ? 2 : 1;
    end = std::min(end, size());
    std::string body = out_.text.substr(at_ + 1, end - at_ - 1);
    if (const std::size_t note = body.find("//"); note != std::string::npos) body.resize(note);
    std::size_t name = body.find_first_not_of(" \t");
    if (name == std::string::npos) name = body.size();
    std::size_t name_end = name;
    while (name_end < body.size() && is_word_char(body[name_end])) ++name_end;
    const std::string word = body.substr(name, name_end - name);
    const std::string rest = body.substr(name_end);
    if (word == "include") {
      const std::size_t open = rest.find_first_of("\"<");
      const std::size_t close = open == std::string::npos ? open : rest.find_first_of("\">", open + 1);
      if (close != std::string::npos)
        out_.includes.push_back({line_, rest.substr(open + 1, close - open - 1), rest[open] == '"'});
      blank(out_.code, at_, end);
      advance(end - at_);
      return;
    }
    out_.directives.push_back({line_, word, rest});
    directive_spans_.emplace_back(at_, end);
    advance(1 + name_end);
  }

  Source out_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;
  std::vector<std::pair<std::size_t, std::size_t>> directive_spans_;
};

bool is_text(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  return ending.empty() || std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

Source read_source(std::string path, std::string text) {
  return Lexer(std::move(path), std::move(text)).run();
}

std::vector<Word> words(const Source& source) {
  std::vector<Word> found;
  int line = 1;
  const std::string& code = source.code;
  for (std::size_t i = 0; i < code.size();) {
    if (code[i] == '\n') ++line;
    if (!is_word_char(code[i])) {
      ++i;
      continue;
    }
    const std::size_t first = i;
    while (i < code.size() && is_word_char(code[i])) ++i;
    if (std::isdigit(static_cast<unsigned char>(code[first])) == 0)
      found.push_back({line, code.substr(first, i - first)});
  }
  return found;
}

Tree read_tree(const std::string& root) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> files;
  const auto take = [&](const fs::path& path) {
    if (path.filename() == ".git") return;  // a file in a second working tree of the same repository
    if (fs::is_regular_file(path) && is_text(path)) files[fs::relative(path, root).generic_string()] = read_file(path);
  };
  for (const auto& entry : fs::directory_iterator(root)) take(entry.path());
  for (const std::string_view folder : kFolders) {
    const fs::path path = fs::path(root) / folder;
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path)) take(entry.path());
  }
  return make_tree(std::move(files));
}

Tree make_tree(std::map<std::string, std::string> files) {
  Tree tree;
  tree.files = std::move(files);
  for (const auto& [path, text] : tree.files)
    if (is_cpp(path)) tree.sources.push_back(read_source(path, text));
  return tree;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

bool is_word_char(char c) {
  return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool is_cpp(std::string_view path) {
  return ends_with(path, ".h") || ends_with(path, ".hpp") || ends_with(path, ".c") || ends_with(path, ".cpp");
}

int line_count(std::string_view text) {
  const auto ends = std::count(text.begin(), text.end(), '\n');
  return static_cast<int>(ends) + (!text.empty() && text.back() != '\n' ? 1 : 0);
}

int line_at(std::string_view text, std::size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? std::string_view() : path.substr(0, slash));
}

std::string file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::vector<std::string> parts(std::string_view text) {
  std::vector<std::string> all;
  bool fresh = true;
  char before = ' ';
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalpha(u) == 0) {
      fresh = true;
    } else {
      if (std::isupper(u) != 0 && std::islower(static_cast<unsigned char>(before)) != 0) fresh = true;
      if (fresh) all.emplace_back();
      all.back().push_back(static_cast<char>(std::tolower(u)));
      fresh = false;
    }
    before = c;
  }
  return all;
}

}  // namespace reshard::style
