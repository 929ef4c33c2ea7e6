// plan.*, first part: problems of every size, and a plan that refuses.

#include <chrono>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"
#include "reshard/text.h"

namespace reshard::conformance {
namespace {

// Asks about each problem; answers must be legal.
void check_problems(const Trial& trial, const std::vector<std::pair<std::string, Problem>>& problems) {
  const Subject subject(trial);
  const Instance instance(subject);
  for (const auto& [what, problem] : problems) check_legal(subject, problem, instance.decide(problem), what);
}

void usual(const Trial& trial) {
  check_problems(trial, {{"for six units on eight ranks", ordinary()}});
}

void one_rank(const Trial& trial) {
  check_problems(trial, {{"for one unit on one rank", toy(1, 1, {4096})},
                         {"for three units on one rank", toy(1, 1, {0, 64, 4096})}});
}

void root_alone(const Trial& trial) {
  check_problems(trial, {{"for a root alone", toy(4, 2, {65536})},
                         {"for a root that owns nothing", toy(4, 2, {0})},
                         {"for units that own nothing", toy(4, 2, {0, 0, 0})}});
}

void primes(const Trial& trial) {
  std::vector<std::pair<std::string, Problem>> problems;
  for (const int ranks : {2, 3, 7, 13, 97})
    problems.emplace_back(fmt::format("on {} ranks, all on one node", ranks),
                          toy(ranks, ranks, {1000003, 7919, 104729, 3})),
        problems.emplace_back(fmt::format("on {} nodes of one rank", ranks), toy(ranks, 1, {1000003, 7919, 104729, 3}));
  check_problems(trial, problems);
}

void huge_unit(const Trial& trial) {
  check_problems(trial, {{"for units of 2^40 bytes", toy(8, 4, {int64_t{1} << 40, int64_t{1} << 40, 4096})}});
}

void many_units(const Trial& trial) {
  constexpr double kLongest = 1;
  std::vector<int64_t> bytes(10'001, 65536);
  const Subject subject(trial);
  const Instance instance(subject);
  const Problem problem = toy(8, 4, bytes);
  const auto began = std::chrono::steady_clock::now();
  const Result result = instance.decide(problem);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  check_legal(subject, problem, result, "for 10,000 units");
  if (seconds > kLongest) warn(fmt::format("decide took {:.1f} s for 10,000 units", seconds));
}

void budgets(const Trial& trial) {
  std::vector<std::pair<std::string, Problem>> problems;
  const int64_t enough = ordinary().predicted_peak({});
  for (const int64_t budget : {int64_t{0}, int64_t{1}, enough - 1, enough, 2 * enough, INT64_MAX}) {
    problems.emplace_back(fmt::format("with a budget of {} bytes", budget), ordinary());
    problems.back().second.budget_bytes = budget;
  }
  check_problems(trial, problems);
}

void budget_kept(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
  Problem problem = ordinary();
  const int64_t least = problem.predicted_peak({});
  bool asked = false;
  for (int part = 0; part <= 40; ++part) {
    problem.budget_bytes = least / 2 + least / 20 * part;
    const Result result = instance.decide(problem);
    asked = asked || result.asked_peak;
    if (!result.asked_peak || result.status != RESHARD_OK) continue;
    if (const int64_t peak = problem.predicted_peak(result.answers); peak > problem.budget_bytes)
      fail(fmt::format("the predicted peak of its answers is {}, the budget {}", base::bytes_text(peak),
                       base::bytes_text(problem.budget_bytes)));
  }
  if (!asked) skip("it does not ask for the predicted peak");
}

void peak_unknown(const Trial& trial) {
  const Subject subject(trial);
  const Instance instance(subject);
  Manner manner;
  manner.peak_unknown = true;
  const Problem problem = ordinary();
  const Result result = instance.decide(problem, manner);
  if (!result.asked_peak) skip("it does not ask for the predicted peak");
  check_legal(subject, problem, result, "when the host cannot predict the peak");
}

// The k-th call of the plan fails, for every k.
void check_passed_on(const Trial& trial, int32_t refusal) {
  const Subject subject(trial);
  const Instance instance(subject);
  Problem problem = ordinary();
  int calls = instance.decide(problem).calls;
  if (calls == 0) problem.budget_bytes = 0, calls = instance.decide(problem).calls;
  if (calls == 0) skip("it leaves every unit to the core");
  Manner manner;
  manner.refusal = refusal;
  const std::string before = answers_text(problem, instance.decide(problem));
  for (int k = 1; k <= calls; ++k) {
    manner.refuse_at = k;
    const Result result = instance.decide(problem, manner);
    if (result.status != refusal)
      fail(fmt::format("call {} of the plan returned {}, and decide {}", k, status_text(refusal),
                       status_text(result.status)));
  }
  const std::string after = answers_text(problem, instance.decide(problem));
  if (after != before) fail(fmt::format("before and after refusals it answers {}", difference(before, after)));
}

void refusal(const Trial& trial) {
  check_passed_on(trial, RESHARD_BAD_ANSWER);
}

void host_failure(const Trial& trial) {
  check_passed_on(trial, RESHARD_HOST_FAILED);
}

constexpr Test kTests[] = {
    {"plan.usual", "answers are legal for a usual problem", Level::quick, Gate::no, usual},
    {"plan.one_rank", "answers are legal on one rank", Level::quick, Gate::no, one_rank},
    {"plan.root_alone", "answers are legal for a root alone and for units that own nothing", Level::quick, Gate::no,
     root_alone},
    {"plan.primes", "answers are legal for prime numbers of ranks and bytes", Level::quick, Gate::no, primes},
    {"plan.huge_unit", "answers are legal for units of 2^40 bytes", Level::full, Gate::no, huge_unit},
    {"plan.many_units", "answers are legal for 10,000 units, and given within a second", Level::full, Gate::no,
     many_units},
    {"plan.budgets", "answers are legal without a budget, with a tiny and with a generous one", Level::quick, Gate::no,
     budgets},
    {"plan.budget_kept", "who asks for the predicted peak keeps the budget, or refuses the problem", Level::full,
     Gate::no, budget_kept},
    {"plan.peak_unknown", "a peak that the host cannot predict is no failure of the plugin", Level::full, Gate::no,
     peak_unknown},
    {"plan.refusal", "decide passes on the refusal of each of its answers", Level::quick, Gate::no, refusal},
    {"plan.host_failure", "decide passes on a failure of the host at each of its calls", Level::full, Gate::no,
     host_failure},
};

}  // namespace

std::span<const Test> plan_tests() {
  return kTests;
}

}  // namespace reshard::conformance
