// plan.*, second part: the same question has the same answer, and asking leaves nothing behind.

#include <stdlib.h>

#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"

namespace reshard::conformance {
namespace {

void check_same(const std::string& one, const std::string& other, const char* when) {
  if (one != other) fail(fmt::format("{} it answers {}", when, difference(one, other)));
}

// A few problems, of which no two have the same answers' length.
std::vector<Problem> several() {
  return {ordinary(), toy(1, 1, {4096}), toy(6, 3, {64, 128, 256}), toy(8, 8, {0, 1 << 20, 1 << 10, 0, 77})};
}

std::vector<std::string> ask_all(const Instance& instance, const std::vector<Problem>& problems) {
  std::vector<std::string> all;
  for (const Problem& problem : problems) all.push_back(answers_text(problem, instance.decide(problem)));
  return all;
}

void twice(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
  const std::vector<Problem> problems = several();
  const std::vector<std::string> before = ask_all(instance, problems);
  for (std::size_t i = 0; i < problems.size(); ++i)
    for (int time = 0; time < 3; ++time)  // an odd number: whoever alternates is found
      check_same(before[i], answers_text(problems[i], instance.decide(problems[i])), "asked twice");
}

void instances(const Trial& trial) {
  const Subject subject(trial);
  const std::vector<Problem> problems = several();
  const Instance first(subject);
  const std::vector<std::string> before = ask_all(first, problems);
  for (std::size_t i = problems.size(); i > 0; --i) {  // not in the order that the first was asked
    const Instance other(subject);
    check_same(before[i - 1], answers_text(problems[i - 1], other.decide(problems[i - 1])), "in two instances");
  }
}

void threads(const Trial& trial) {
  constexpr int kThreads = 8, kTimes = 50;
  const Subject subject(trial);
  const Problem problem = ordinary();
  std::vector<std::unique_ptr<Instance>> all;
  for (int i = 0; i < kThreads; ++i) all.push_back(std::make_unique<Instance>(subject));
  const std::string alone = answers_text(problem, all[0]->decide(problem));
  std::mutex lock;
  std::exception_ptr failure;
  std::vector<std::thread> running;
  for (const auto& instance : all)
    running.emplace_back([&, one = instance.get()] {
      try {
        for (int i = 0; i < kTimes; ++i)
          check_same(alone, answers_text(problem, one->decide(problem)), "alone and beside seven threads");
      } catch (...) {
        const std::lock_guard guard(lock);
        failure = std::current_exception();
      }
    });
  for (std::thread& thread : running) thread.join();
  if (failure) std::rethrow_exception(failure);
}

void ranks(const Trial& trial) {
  Subject subject(trial);
  const Problem problem = ordinary();
  std::string first;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (const char* name : {"RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
      setenv(name, std::to_string(rank).c_str(), 1);
    subject.deinit();
    subject.init();
    const Instance instance(subject);
    const std::string answers = answers_text(problem, instance.decide(problem));
    if (rank == 0) first = answers;
    check_same(first, answers, fmt::format("on ranks 0 and {}", rank).c_str());
  }
}

void leaks(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
  const Problem problem = ordinary();
  check_growth(1000, "asking", [&] { instance.decide(problem); });
}

void leaks_refused(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
  const Problem problem = ordinary();
  const int calls = instance.decide(problem).calls;
  if (calls == 0) skip("it leaves every unit to the core");
  Manner manner;
  check_growth(300, "refusing each answer", [&] {
    for (manner.refuse_at = 1; manner.refuse_at <= calls; ++manner.refuse_at) instance.decide(problem, manner);
  });
}

constexpr Test kTests[] = {
    {"plan.twice", "decide answers the same when asked twice", Level::quick, Gate::no, twice},
    {"plan.instances", "decide answers the same in every instance", Level::quick, Gate::no, instances},
    {"plan.threads", "decide answers the same on eight threads at once", Level::full, Gate::no, threads},
    {"plan.ranks", "decide answers the same whatever rank the environment names", Level::full, Gate::no, ranks},
    {"leak.decide", "decide leaves nothing behind", Level::full, Gate::no, leaks},
    {"leak.refusal", "a decide that is refused leaves nothing behind", Level::full, Gate::no, leaks_refused},
};

}  // namespace

std::span<const Test> repeat_tests() {
  return kTests;
}

}  // namespace reshard::conformance
