#pragma once

// reshard::app in this process, as a user types it: arguments in, texts and exit code out. And job files for it.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/toy.h"

namespace reshard::cli {

struct AppRun {
  int code = 0;
  std::string out, err;
};

inline AppRun run_app(Program& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bin/toy");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  AppRun run;
  run.code = app(static_cast<int>(arguments.size()), argv.data(), program);
  std::fflush(stdout);
  run.out = testing::internal::GetCapturedStdout();
  run.err = testing::internal::GetCapturedStderr();
  return run;
}

// A folder that is gone with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "reshard_cli_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

inline void expect_failure(const AppRun& run, int code, const std::string& err) {
  EXPECT_EQ(run.code, code);
  EXPECT_EQ(run.err, err);
}

inline nlohmann::json json_of(const std::string& file) {
  return nlohmann::json::parse(text_of(file));
}

inline std::string job_text(const std::string& more = "") {
  return "[strategy]\nplugin = \"zero3\"\n" + more +
         "\n[mesh]\nranks = 2\n[train]\nsteps = 6\nglobal_batch = 8\nmicrobatches = 2\nevaluate_every = "
         "3\n[optimizer]\nlr = 1e-2\n";
}

}  // namespace reshard::cli
