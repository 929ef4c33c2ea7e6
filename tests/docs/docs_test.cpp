// What the documents show is what the programs do: every command of a `console` block in a Markdown file is run from
// the repository's root, and its output must be the block's.
//
//   ```console
//   $ build/bin/reshard plugins list
//   name   version  …
//   ```
//
// Numbers, and the units that go with them, may differ (a machine's speed, a file's size): they are compared as "a
// number". `…` stands for any text within a line, a line of `…` alone for any number of lines, none included. `# exit
// 2` as a block's last line is the exit status; without it, it is 0. A `console` block that must not be run here (it
// installs, it takes minutes) is fenced as `sh` instead, and then it shows no output.

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

struct Command {
  std::string file;
  int line = 0;
  std::string text;
  std::vector<std::string> output;
  int status = 0;
};

std::vector<Command> commands_of(const fs::path& file) {
  std::vector<Command> found;
  std::ifstream in(file);
  std::string line;
  bool inside = false;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!inside) {
      inside = line == "```console";
      continue;
    }
    if (line == "```") {
      inside = false;
    } else if (line.starts_with("$ ")) {
      found.push_back({fs::relative(file, RESHARD_SOURCE_DIR).string(), number, line.substr(2), {}, 0});
    } else if (!found.empty() && line.starts_with("# exit ")) {
      found.back().status = std::stoi(line.substr(7));
    } else if (!found.empty()) {
      found.back().output.push_back(line);
    }
  }
  return found;
}

std::vector<Command> all_commands() {
  std::vector<Command> all;
  for (const char* start : {"README.md", "CONTRIBUTING.md", "plugins", "sdk", "examples"}) {
    const fs::path path = fs::path(RESHARD_SOURCE_DIR) / start;
    std::vector<fs::path> files;
    if (fs::is_directory(path)) {
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.path().extension() == ".md") files.push_back(entry.path());
    } else {
      files.push_back(path);
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files)
      for (Command& command : commands_of(file)) all.push_back(std::move(command));
  }
  return all;
}

// Numbers with their units become "#", runs of blanks one blank: tables keep their shape, not their widths. A digit
// inside a word (zero3, h.0) is no number.
std::string shape_of(std::string line) {
  static const std::regex number(
      R"((^|[^A-Za-z0-9_.])[+-]?[0-9][0-9,]*(\.[0-9]+)?(e[+-]?[0-9]+)?( ?(µs|ms|s|min|B|KiB|MiB|GiB|M|k)\b)?)");
  static const std::regex hash(R"(\b[0-9a-f]{16}\b)"), blanks(R"(\s+)"), dashes(R"(#( #)+)");
  line = std::regex_replace(line, hash, "HASH");
  line = std::regex_replace(line, number, "$1#");
  line = std::regex_replace(line, blanks, " ");
  line = std::regex_replace(line, dashes, "#");
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

bool line_matches(const std::string& shown, const std::string& real) {
  const std::string pattern = shape_of(shown), text = shape_of(real);
  const std::string dots = "…";
  std::size_t at = 0, from = 0;
  bool first = true;
  while (true) {
    const std::size_t next = pattern.find(dots, from);
    const std::string part = pattern.substr(from, next == std::string::npos ? std::string::npos : next - from);
    const std::size_t found =
        first ? (text.compare(0, part.size(), part) == 0 ? 0 : std::string::npos) : text.find(part, at);
    if (found == std::string::npos) return false;
    at = found + part.size();
    if (next == std::string::npos) return at == text.size() || (!first && text.ends_with(part));
    from = next + dots.size();
    first = false;
  }
}

// True when all of `shown` fits all of `real`, lines of "…" taking any number of lines.
bool matches(std::span<const std::string> shown, std::span<const std::string> real) {
  if (shown.empty()) return real.empty();
  if (shown.front() == "…") {
    for (std::size_t skip = 0; skip <= real.size(); ++skip)
      if (matches(shown.subspan(1), real.subspan(skip))) return true;
    return false;
  }
  return !real.empty() && line_matches(shown.front(), real.front()) && matches(shown.subspan(1), real.subspan(1));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

struct Ran {
  std::string output;
  int status = 0;
};

// The documents say build/bin; this build may lie elsewhere.
Ran run(const std::string& text) {
  const std::string here = std::regex_replace(text, std::regex(R"(\bbuild/)"), std::string(RESHARD_BINARY_DIR) + "/");
  const std::string line = "cd '" + std::string(RESHARD_SOURCE_DIR) + "' && { " + here + "; } 2>&1";
  Ran ran;
  FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe)) ran.output.append(part.data(), got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.output = std::regex_replace(ran.output, std::regex(RESHARD_BINARY_DIR), "build");
  return ran;
}

TEST(Docs, EveryConsoleBlockShowsWhatItsCommandPrints) {
  const std::vector<Command> commands = all_commands();
  ASSERT_GE(commands.size(), 5U) << "the documents show their commands in `console` blocks";
  for (const Command& command : commands) {
    SCOPED_TRACE(command.file + ":" + std::to_string(command.line) + ": $ " + command.text);
    std::vector<std::string> shown = command.output;
    while (!shown.empty() && shown.back().empty()) shown.pop_back();
    const Ran ran = run(command.text);
    EXPECT_EQ(ran.status, command.status) << ran.output;
    const std::vector<std::string> real = lines_of(ran.output);
    EXPECT_TRUE(matches(shown, real)) << "it prints:\n" << ran.output;
  }
}

// Every id that a refusal of a plugin can end in, from the sources, is explained in the SDK's README, and no other is.
TEST(Docs, EveryRefusalsIdIsExplained) {
  const auto ids_in = [](const fs::path& file, const std::string& quote) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const std::regex id(quote + "((file|trust|elf|abi|probe|load|entry)\\.[a-z-]+)" + quote);
    std::set<std::string> found;
    for (std::sregex_iterator at(text.begin(), text.end(), id), end; at != end; ++at) found.insert((*at)[1]);
    return found;
  };
  std::set<std::string> thrown;
  for (const auto& entry : fs::directory_iterator(fs::path(RESHARD_SOURCE_DIR) / "core" / "plugin"))
    thrown.merge(ids_in(entry.path(), "\""));
  EXPECT_GT(thrown.size(), 30U);
  EXPECT_EQ(ids_in(fs::path(RESHARD_SOURCE_DIR) / "sdk" / "README.md", "`"), thrown);
}

// Each message that the reference shows stands in the sources: every piece of it between two "…".
TEST(Docs, EveryMessageOfTheReferenceIsSaid) {
  std::string sources;
  for (const auto& entry : fs::directory_iterator(fs::path(RESHARD_SOURCE_DIR) / "core" / "plugin")) {
    std::ifstream in(entry.path());
    sources += std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  sources = std::regex_replace(sources, std::regex("\"\\s*\n\\s*\""), "");  // literals that go on in the next line
  sources = std::regex_replace(sources, std::regex("\\\\\""), "\"");
  std::ifstream in(fs::path(RESHARD_SOURCE_DIR) / "sdk" / "REFERENCE.md");
  std::set<std::string> ids;
  const std::regex row("\\| `((?:file|trust|elf|abi|probe|load|entry)\\.[a-z-]+)` \\| (.*) \\| (.*) \\|");
  for (std::string line; std::getline(in, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    EXPECT_TRUE(ids.insert(cells[1]).second) << cells[1] << " stands there twice";
    EXPECT_NE(sources.find("\"" + cells[1].str() + "\""), std::string::npos) << cells[1] << " is no id";
    const std::string message = std::regex_replace(cells[2].str(), std::regex("…|; "), "\n");
    std::istringstream pieces(message);
    for (std::string piece; std::getline(pieces, piece);)
      EXPECT_NE(sources.find(piece), std::string::npos) << cells[1] << " never says \"" << piece << "\"";
  }
  EXPECT_GT(ids.size(), 40U);
}

TEST(Docs, TheComparisonCanFail) {
  EXPECT_TRUE(line_matches("step 10  loss 4.21  3 ms", "step 200  loss 1.5  12 s"));
  EXPECT_FALSE(line_matches("step 10  loss 4.21", "step 10  norm 4.21"));
  EXPECT_TRUE(line_matches("zero3 …/zero3.so", "zero3  /x/y/zero3.so"));
  EXPECT_FALSE(line_matches("zero3 …/zero3.so", "zero3  /x/y/zero2.so"));
  const std::vector<std::string> shown{"a", "…", "b"}, real{"a", "x", "y", "b"}, other{"a", "x"};
  EXPECT_TRUE(matches(shown, real));
  EXPECT_FALSE(matches(shown, other));
}

}  // namespace
