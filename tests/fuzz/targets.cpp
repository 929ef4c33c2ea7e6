#include "tests/fuzz/targets.h"

#include <reshard/plugin.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/document.h"
#include "config/reader.h"
#include "plugin/answers.h"
#include "plugin/file.h"
#include "reshard/error.h"

namespace reshard::fuzz {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void run_file(std::span<const uint8_t> bytes) {
  try {
    plugin::inspect_bytes("zero3.so", std::string(bytes.begin(), bytes.end()));
  } catch (const Error&) {
  }
}

std::vector<std::string> file_seeds() {
  std::vector<std::string> seeds;
  for (const char* name : {"zero3", "byte_budget"})
    seeds.push_back(text_of(std::filesystem::path(RESHARD_BINARY_DIR) / "plugins" / (std::string(name) + ".so")));
  return seeds;
}

void run_job(std::span<const uint8_t> bytes) {
  const std::string text(bytes.begin(), bytes.end());
  try {
    Job job;
    Tables none;
    config::Reader(job, none, ".").read(config::parse_document(text, "job.toml"));
    check(job);
    // What was accepted can be written down and is the same job when it is read again.
    const std::string printed = print_job(job);
    Job again;
    config::Reader(again, none, ".").read(config::parse_document(printed, "printed.toml"));
    if (print_job(again) != printed) __builtin_trap();
  } catch (const Error&) {
  }
}

std::vector<std::string> job_seeds() {
  std::vector<std::string> seeds{
      "[strategy]\nplugin = \"zero3\"\n[[strategy.unit]]\nmatch = \"h.*\"\nafter_forward = 2\n"
      "[[strategy.variant]]\nname = \"a\"\nplugin = \"zero2\"\noptions = { ahead = [1, 2.5, \"x\"] }\n",
      "[optimizer]\nbetas = [0.9, 0.95]\nschedule = { name = \"cosine\" }\n[[optimizer.group]]\nmatch = \"*.bias\"\n"
      "lr_scale = 0.5\n[[plugins.pin]]\nname = \"zero3\"\nsha256 = \"" +
          std::string(64, 'a') + "\"\n"};
  for (const char* example : {"gpt", "mlp"}) {
    std::string text = text_of(std::filesystem::path(RESHARD_SOURCE_DIR) / "examples" / example / "job.toml");
    seeds.push_back(text.substr(0, text.find("[model]")));  // the program's own tables are not declared here
  }
  return seeds;
}

// Takes numbers off the front of the input; zeros where it has ended.
class Taker {
 public:
  explicit Taker(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  template <typename T>
  T take() {
    T value{};
    const std::size_t count = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  // Some of the input as text; its memory is the input's.
  reshard_text text() {
    const std::size_t wanted = take<uint16_t>();
    const std::size_t count = std::min(wanted, bytes_.size());
    const reshard_text text{reinterpret_cast<const char*>(bytes_.data()), count};
    bytes_ = bytes_.subspan(count);
    return count == 0 && take<uint8_t>() % 2 == 0 ? reshard_text{nullptr, 0} : text;
  }

 private:
  std::span<const uint8_t> bytes_;
};

// As many calls as the input says, with whatever it says; an error buffer of any size that the ABI allows.
void run_answers(std::span<const uint8_t> bytes) {
  Taker input(bytes);
  Problem problem;
  problem.ranks = 4;
  for (int u = 0; u < input.take<uint8_t>() % 5; ++u) {
    ProblemUnit unit;
    unit.name = "unit";
    unit.root = u == 0;
    problem.units.push_back(unit);
  }
  if (input.take<uint8_t>() % 2 == 0) problem.predicted_peak = [](const Answers& answers) { return int64_t(answers.units.size()); };
  plugin::AnswerSink sink(problem);
  const reshard_plan* plan = sink.table();
  while (!input.empty()) {
    reshard_error error{};
    error.struct_size = input.take<uint8_t>() % 2 == 0 ? sizeof error : input.take<uint16_t>() % sizeof error;
    reshard_error* where = input.take<uint8_t>() % 4 == 0 ? nullptr : &error;
    const uint32_t number = input.take<uint8_t>() % 3 == 0 ? input.take<uint32_t>() : input.take<uint8_t>() % 8;
    auto decision = input.take<reshard_decision>();
    if (input.take<uint8_t>() % 4 != 0) decision.struct_size = sizeof decision;
    int64_t peak = 0;
    switch (input.take<uint8_t>() % 5) {
      case 0: plan->set_unit(plan->context, number, input.take<uint8_t>() % 8 == 0 ? nullptr : &decision, input.text(), where); break;
      case 1: plan->set_shard_over(plan->context, number, input.text(), where); break;
      case 2: plan->set_all_reduce(plan->context, number, input.text(), where); break;
      case 3: plan->clear(plan->context, number, where); break;
      case 4: plan->predicted_peak(plan->context, input.take<uint8_t>() % 8 == 0 ? nullptr : &peak, where); break;
    }
  }
  if (sink.take().units.size() != problem.units.size()) __builtin_trap();
}

std::vector<std::string> answer_seeds() {
  std::string one(64, '\1'), many;
  for (int i = 0; i < 600; ++i) many += static_cast<char>(i * 7);
  return {one, many};
}

}  // namespace

const Target kTargets[3] = {{"file", run_file, file_seeds}, {"job", run_job, job_seeds}, {"answers", run_answers, answer_seeds}};

}  // namespace reshard::fuzz
