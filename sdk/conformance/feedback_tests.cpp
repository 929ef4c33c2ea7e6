// feedback.*: "reshard.feedback/1", of a strategy that offers it. What it is told decides, and nothing else.

#include <reshard/ext/feedback.h>

#include <cstring>

#include <fmt/format.h>

#include "conformance/subject.h"
#include "conformance/toys.h"

namespace reshard::conformance {
namespace {

constexpr std::string_view kId = RESHARD_FEEDBACK_ID;

const reshard_feedback& table(const Subject& subject) {
  if (subject.table().get_extension == nullptr) skip("it offers no " + std::string(kId));
  const void* found = subject.table().get_extension({kId.data(), kId.size()});
  if (found == nullptr) skip("it offers no " + std::string(kId));
  return *static_cast<const reshard_feedback*>(found);
}

// A step of a problem, as a host of this minor or a later one tells of it.
struct Step {
  uint64_t number = 0;
  double seconds = 0.01;
  double exposed = 1e-4;  // of the first unit's gather in backward; the next ones' are multiples
  uint32_t flags = 0;
  bool later = false;  // every struct is longer than this header's

  // Whether the strategy asks to decide anew.
  bool tell(const reshard_feedback& to, const Instance& instance, const Problem& problem) const {
    const std::size_t unit_size = sizeof(reshard_unit_summary) + (later ? 24 : 0);
    std::vector<unsigned char> units(unit_size * problem.units.size() + 1, 0xA5);
    for (std::size_t u = 0; u < problem.units.size(); ++u) {
      const double own = exposed * static_cast<double>(u + 1);
      const reshard_unit_summary unit{own / 2, own, own / 4, 2, 0};
      std::memcpy(units.data() + u * unit_size, &unit, sizeof unit);
    }
    struct {
      reshard_summary head;
      unsigned char tail[40];
    } raw{};
    std::memset(raw.tail, 0xA5, sizeof raw.tail);
    raw.head.struct_size = later ? sizeof raw : sizeof raw.head;
    raw.head.flags = flags | (later ? 0x80000000U : 0);
    raw.head.step = number;
    raw.head.seconds = seconds;
    raw.head.seconds_exposed = exposed * static_cast<double>(problem.units.size());
    for (int64_t& bytes : raw.head.peak_bytes) bytes = 1 << 20;
    raw.head.units = reinterpret_cast<const reshard_unit_summary*>(units.data());
    raw.head.unit_count = static_cast<uint32_t>(problem.units.size());
    raw.head.unit_size = static_cast<uint32_t>(unit_size);
    uint32_t anew = 0;
    ErrorBuffer error{Manner{}};
    const int32_t status = to.summary(instance.raw(), &raw.head, &anew, error.raw());
    error.check("summary");
    if (status != RESHARD_OK)
      fail(fmt::format("told of step {}, it returned {}: {}", number, status_text(status), error.text()));
    if (anew > 1) fail(fmt::format("told of step {}, it asks for {}, not 0 or 1", number, anew));
    return anew == 1;
  }
};

// Wishes and answers of a whole run of steps: "0: no; 1: yes: unit root keep …".
std::string run(const Subject& subject, const Problem& problem, bool later) {
  const reshard_feedback& feedback = table(subject);
  const Instance instance(subject);
  const Result first = instance.decide(problem);
  std::string text = answers_text(problem, first);
  if (first.status != RESHARD_OK) return text;
  for (uint64_t number = 0; number < 40; ++number) {
    Step step;
    step.number = number;
    step.flags = number == 0 ? uint32_t{RESHARD_STEP_FIRST} : number % 7 == 3 ? uint32_t{RESHARD_STEP_SKIPPED} : 0;
    step.seconds = number < 20 ? 0.01 : 0.009;
    step.later = later;
    const bool anew = step.tell(feedback, instance, problem);
    text += fmt::format("step {}: decide anew: {}\n", number, anew ? "yes" : "no");
    if (!anew) continue;
    const Result result = instance.decide(problem);
    check_legal(subject, problem, result, fmt::format("after step {}", number));
    text += answers_text(problem, result);
  }
  return text;
}

Problem with_budget() {
  Problem problem = ordinary();
  problem.budget_bytes = int64_t{1} << 40;
  return problem;
}

void whole(const Trial& trial) {
  const Subject subject(trial);
  const reshard_feedback& feedback = table(subject);
  if (feedback.struct_size < sizeof feedback)
    fail(fmt::format("its table has {} bytes, not {}", feedback.struct_size, sizeof feedback));
  if (feedback.reserved != 0) fail(fmt::format("reserved of its table is {:#x}, not 0", feedback.reserved));
  if (feedback.summary == nullptr) fail("its table has no summary");
  if (subject.table().get_extension({"com.nobody.none/1", 17}) != nullptr)
    fail("it has a table for com.nobody.none/1, which nobody knows");
  if (subject.table().get_extension({kId.data(), kId.size() - 1}) != nullptr)
    fail("it takes the beginning of an id for the id");
}

void legal(const Trial& trial) {
  const Subject subject(trial);
  run(subject, with_budget(), false);
}

void same(const Trial& trial) {
  const Subject subject(trial);
  const Problem problem = with_budget();
  const std::string one = run(subject, problem, false), other = run(subject, problem, false);
  if (one != other) fail(fmt::format("told the same, two instances say {}", difference(one, other)));
}

void larger(const Trial& trial) {
  const Subject subject(trial);
  const Problem problem = with_budget();
  const std::string usual = run(subject, problem, false), later = run(subject, problem, true);
  if (usual != later) fail(fmt::format("of a later host it says {}", difference(usual, later)));
}

void odd_steps(const Trial& trial) {
  const Subject subject(trial);
  const reshard_feedback& feedback = table(subject);
  for (const Problem& problem : {with_budget(), toy(1, 1, {4096}), toy(2, 2, {0})})
    for (const double seconds : {0.0, 1e-9, 1e9})
      for (const double exposed : {0.0, 1e9}) {
        const Instance instance(subject);
        if (instance.decide(problem).status != RESHARD_OK) continue;
        for (uint64_t number = 0; number < 20; ++number)
          if (Step{number, seconds, exposed}.tell(feedback, instance, problem))
            check_legal(subject, problem, instance.decide(problem),
                        fmt::format("after steps of {} s, {} s exposed", seconds, exposed));
      }
}

void leaks(const Trial& trial) {
  const Subject subject(trial);
  const reshard_feedback& feedback = table(subject);
  const Problem problem = with_budget();
  check_growth(300, "an instance that is told of ten steps", [&] {
    const Instance instance(subject);
    instance.decide(problem);
    for (uint64_t number = 0; number < 10; ++number)
      if (Step{number}.tell(feedback, instance, problem)) instance.decide(problem);
  });
}

constexpr Test kTests[] = {
    {"feedback.table", "the table of reshard.feedback/1 is whole, and there is none for another id", Level::quick,
     Gate::no, whole},
    {"feedback.legal", "answers after steps are legal", Level::quick, Gate::no, legal},
    {"feedback.same", "instances that are told the same answer the same", Level::quick, Gate::no, same},
    {"feedback.larger_structs", "summaries that a later host has made longer change no answer", Level::quick, Gate::no,
     larger},
    {"feedback.odd_steps", "steps of no time and of much time are taken", Level::full, Gate::no, odd_steps},
    {"feedback.leaks", "an instance that was told of steps leaves nothing behind", Level::full, Gate::no, leaks},
};

}  // namespace

std::span<const Test> feedback_tests() {
  return kTests;
}

}  // namespace reshard::conformance
