// fuzz.*: problems and options drawn from the seed.

#include <random>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"

namespace reshard::conformance {
namespace {

constexpr int kTimes = 400;

std::string problem_text(int number, const Problem& problem, const Subject& subject, const Settings& settings) {
  std::string bytes, options;
  for (const ProblemUnit& unit : problem.units) bytes += fmt::format("{}{}", bytes.empty() ? "" : " ", unit.bytes);
  for (std::size_t i = 0; i < settings.size(); ++i)
    if (settings[i].given)
      options += fmt::format(", {} = {}", subject.options()[i].name, plugin::toml_text(settings[i]));
  return fmt::format("in random problem {} ({} ranks, {} per node, budget {}, units of {} bytes{})", number,
                     problem.ranks, problem.ranks_per_node, problem.budget_bytes, bytes, options);
}

void problems(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
  std::mt19937_64 random(trial.seed);
  for (int i = 0; i < kTimes; ++i) {
    const Problem problem = random_problem(random);
    check_legal(subject, problem, instance.decide(problem), problem_text(i, problem, subject, {}));
  }
}

void options(const Trial& trial) {
  const Subject subject(trial);
  if (subject.options().empty()) skip("it has no options");
  std::mt19937_64 random(trial.seed);
  for (int i = 0; i < kTimes; ++i) {
    const Settings settings = random_settings(subject, random);
    const Problem problem = random_problem(random);
    const std::string what = problem_text(i, problem, subject, settings);
    void* instance = nullptr;
    check_refusal(subject, subject.create(settings, &instance), "create", what);
    if (instance == nullptr) continue;
    const Result result = subject.decide(instance, problem);
    check_legal(subject, problem, result, what);
    if (const std::string again = answers_text(problem, subject.decide(instance, problem)),
        once = answers_text(problem, result);
        once != again)
      fail(fmt::format("{}: asked twice it answers {}", what, difference(once, again)));
    subject.destroy(instance);
  }
}

void refusals(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
  std::mt19937_64 random(trial.seed);
  for (int i = 0; i < kTimes; ++i) {
    const Problem problem = random_problem(random);
    const int calls = instance.decide(problem).calls;
    if (calls == 0) continue;
    Manner manner;
    manner.refuse_at = static_cast<int>(1 + random() % static_cast<uint64_t>(calls));
    manner.tails = random() % 2 == 0;
    manner.null_error = random() % 3 == 0;
    const Result result = instance.decide(problem, manner);
    if (result.status != RESHARD_BAD_ANSWER)
      fail(fmt::format("{}: call {} of the plan was refused, and decide returned {}",
                       problem_text(i, problem, subject, {}), manner.refuse_at, status_text(result.status)));
  }
}

constexpr Test kTests[] = {
    {"fuzz.problems", "answers are legal for random problems", Level::strict, Gate::no, problems},
    {"fuzz.options", "answers are legal and repeat for random problems under random options", Level::strict, Gate::no,
     options},
    {"fuzz.refusals", "decide passes on the refusal of a random answer to a random problem", Level::strict, Gate::no,
     refusals},
};

}  // namespace

std::span<const Test> fuzz_tests() {
  return kTests;
}

}  // namespace reshard::conformance
