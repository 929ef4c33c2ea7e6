#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "tests/style/rules.h"

namespace reshard::style {
namespace {

bool in_core(const Source& source) {
  return starts_with(source.path, "core/");
}

// A folder of plugins/ with a source in it is a strategy, and its name is the strategy's.
std::set<std::string> strategy_names(const Tree& tree) {
  std::set<std::string> names;
  for (const auto& [path, text] : tree.files) {
    if (!starts_with(path, "plugins/")) continue;
    const std::string rest = path.substr(8);
    if (const std::size_t slash = rest.find('/'); slash != std::string::npos) names.insert(rest.substr(0, slash));
  }
  return names;
}

// "kZero3Plan" and "zero3_plan" both become "zero3plan" (with a k).
std::string flat(std::string_view word) {
  std::string out;
  for (const char c : word)
    if (c != '_') out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return out;
}

// "zero3" is no word of English, so any mention counts; "replicate" is one, so only the bare word does.
bool is_coined(std::string_view name) {
  return std::any_of(name.begin(), name.end(),
                     [](char c) { return c == '_' || std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

bool names_strategy_in_code(std::string_view word, const std::string& name) {
  return word == name || (is_coined(name) && flat(word).find(flat(name)) != std::string::npos);
}

bool names_strategy_in_text(std::string_view text, const std::string& name) {
  for (const char quote : {'"', '\'', '`'})
    if (text.find(quote + name + quote) != std::string_view::npos) return true;
  return text == name || (is_coined(name) && text.find(name) != std::string_view::npos);
}

}  // namespace

std::vector<Finding> check_strategy_names(const Tree& tree) {
  std::vector<Finding> found;
  const std::set<std::string> names = strategy_names(tree);
  for (const Source& source : tree.sources) {
    if (!in_core(source)) continue;
    const auto report = [&](int line, const std::string& name) {
      found.push_back(
          {source.path, line, "strategy-name",
           "core/ knows no strategy by name, and this names " + name + "; decide from the decision's values"});
    };
    for (const std::string& name : names) {
      for (const Word& word : words(source))
        if (names_strategy_in_code(word.text, name)) report(word.line, name);
      for (const Literal& literal : source.literals)
        if (names_strategy_in_text(literal.text, name)) report(literal.line, name);
    }
  }
  return found;
}

std::vector<Finding> check_words(const Tree& tree) {
  static constexpr std::pair<std::string_view, std::string_view> instead[] = {
      {"world", "ranks"}, {"worlds", "ranks"}, {"bucket", "unit"}, {"buckets", "units"}};
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    if (!in_core(source) && !starts_with(source.path, "sdk/include/")) continue;
    const auto check = [&](int line, std::string_view text) {
      for (const std::string& part : parts(text))
        for (const auto& [word, better] : instead)
          if (part == word)
            found.push_back(
                {source.path, line, "words", "say " + std::string(better) + ", not " + part + ": one word per idea"});
    };
    for (const Word& word : words(source))
      if (!starts_with(word.text, "MPI_")) check(word.line, word.text);  // MPI's own names
    // A literal in capitals is an environment variable that somebody else has named (WORLD_SIZE).
    for (const Literal& literal : source.literals)
      if (std::any_of(literal.text.begin(), literal.text.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
        check(literal.line, literal.text);
  }
  return found;
}

std::vector<Finding> check_prints(const Tree& tree) {
  static constexpr std::string_view printing[] = {"cout",     "cerr",   "clog",    "printf", "fprintf", "vprintf",
                                                  "vfprintf", "puts",   "putchar", "putc",   "fputs",   "fputc",
                                                  "perror",   "stdout", "stderr",  "println"};
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    const bool quiet =
        in_core(source) || starts_with(source.path, "sdk/include/") || starts_with(source.path, "plugins/");
    if (!quiet || starts_with(source.path, "core/cli/")) continue;
    if (source.path == "core/base/check.cpp") continue;  // the last words of a process that stops
    const std::vector<Word> all = words(source);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool fmt_print = i > 0 && all[i].text == "print" && (all[i - 1].text == "fmt" || all[i - 1].text == "std");
      if (fmt_print || std::find(std::begin(printing), std::end(printing), all[i].text) != std::end(printing))
        found.push_back({source.path, all[i].line, "prints",
                         "only cli, tests and examples print, and this uses " + all[i].text +
                             "; return the text or throw an Error"});
    }
  }
  return found;
}

std::vector<Finding> check_backend_switches(const Tree& tree) {
  // Names with two underscores are what a compiler says of itself and of the processor; these few say which back end
  // there is.
  static constexpr std::string_view backends[] = {"__has_include", "__CUDACC__", "__CUDA_ARCH__", "__NVCC__",
                                                  "__HIPCC__"};
  static constexpr std::string_view compiler[] = {"defined", "thread_sanitizer", "address_sanitizer"};
  const auto has = [](const auto& list, const std::string& word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
  };
  std::vector<Finding> found;
  for (const Source& source : tree.sources) {
    if (!in_core(source) && !starts_with(source.path, "plugins/")) continue;
    for (const Directive& directive : source.directives) {
      if (directive.name != "if" && directive.name != "ifdef" && directive.name != "ifndef" && directive.name != "elif")
        continue;
      for (const Word& word : words(read_source("condition", directive.rest)))
        if (!has(compiler, word.text) && (!starts_with(word.text, "__") || has(backends, word.text)))
          found.push_back(
              {source.path, directive.line, "backend-switch",
               "no #if on " + word.text + ": a back end is a file that is built or not, chosen at run time"});
    }
  }
  return found;
}

}  // namespace reshard::style
