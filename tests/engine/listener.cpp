// A strategy for tests that listens: after every `every` steps it asks to decide anew, and keeps other units then. It
// logs what it was told, bit for bit, as a warning of its next decision. Option `fault`: what is wrong with it.

#include <reshard/strategy.hpp>

#include <atomic>

namespace {

using namespace reshard::sdk;

std::atomic<int> instances{0};

struct Listener {
  uint32_t every = 2;
  uint32_t turns = 1000;
  std::string fault = "none";
  bool reduce_last = false, replicate = false;

  static constexpr Field<Listener> options[] = {
      {"every", &Listener::every, 1, 1000, "steps between two plans"},
      {"turns", &Listener::turns, 0, 1000, "plans after the first"},
      {"fault", &Listener::fault, Choices{"none|throws|odd_wish|odd_plan|keeps_all"}, "what is wrong with it"},
      {"reduce_last", &Listener::reduce_last, "in later plans"},
      {"replicate", &Listener::replicate, "in later plans"},
  };

  bool feedback(const Feedback& step) {
    char line[160];
    std::snprintf(line, sizeof line, "step %llu%s%s %a %a, peak %lld;", static_cast<unsigned long long>(step.step()),
                  step.skipped() ? " skipped" : "", step.first_of_plan() ? " first" : "", step.seconds(),
                  step.seconds_exposed(), static_cast<long long>(step.peak_bytes()));
    told += line;
    for (uint32_t u = 0; u < step.unit_count(); ++u) {
      std::snprintf(line, sizeof line, " %u: %a %a %a %u", u, step.unit(u).exposed_gather_forward,
                    step.unit(u).exposed_gather_backward, step.unit(u).exposed_reduce, step.unit(u).gathers);
      told += line;
    }
    if (fault == "throws" && step.step() == 1) throw std::runtime_error("it does not like this step");
    if (fault == "odd_wish" && number % 2 == 1 && step.step() == 1) return true;
    if (turn >= turns || (step.step() + 1) % every != 0) return false;
    ++turn;
    return true;
  }

  void decide(const Problem& problem, Plan& plan) const {
    if (!told.empty()) plan.log(Level::warn, told);
    told.clear();
    for (const Unit& unit : problem.units()) {
      Decision decision;
      decision.after_forward = After::free;
      const bool keep = turn > 0 && (unit.index() + turn) % 3 == 0;
      if (keep || (turn > 0 && fault == "keeps_all")) decision.after_forward = After::keep;
      if (fault == "odd_plan" && turn > 0 && number % 2 == 1) decision.after_forward = After::keep;
      if (turn > 0 && reduce_last) decision.reduce = Reduce::last;
      plan.set(unit, decision, turn == 0 ? "the first plan" : "plan " + std::to_string(turn));
    }
    if (turn > 0 && replicate) plan.shard_over(1, "in later plans");
  }

  uint32_t turn = 0;
  int number = instances++;
  mutable std::string told;
};

}  // namespace

RESHARD_STRATEGY(Listener, "listener", "1.0.0", "listens to its steps, for tests")
