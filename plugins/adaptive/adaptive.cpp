// adaptive: begins as zero3, measures for a few steps what the gathers inside backward keep each rank's compute waiting
// for, and then keeps those units from forward to backward that save most of it per byte, as far as the budget goes. If
// the steps do not become faster by it, it frees them again. Then it stays as it is.
//
//   per rank at rest   P/N parameters
//   per rank at peak   at most the budget
//   sent per rank      (N-1)/N * M * (2P - K + G)
//
// P parameter bytes, K of them in kept units, G gradient bytes, N ranks of a shard group, M micro-batches.

#include <reshard/strategy.hpp>

#include <algorithm>

namespace {

using reshard::sdk::After;
using reshard::sdk::Bytes;
using reshard::sdk::bytes_text;
using reshard::sdk::Decision;
using reshard::sdk::Feedback;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::ProblemError;
using reshard::sdk::Reduce;
using reshard::sdk::seconds_text;
using reshard::sdk::Unit;

// Of the peak, each of which drives a whole step through the host's scheduler.
constexpr int kMostQuestions = 16;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What some steps under one plan showed.
class Measurement {
 public:
  void add(const Feedback& step) {
    seconds_.push_back(step.seconds());
    exposed_.resize(step.unit_count());
    for (uint32_t u = 0; u < step.unit_count(); ++u) exposed_[u].push_back(step.unit(u).exposed_gather_backward);
  }
  std::size_t steps() const { return seconds_.size(); }
  double seconds() const { return median(seconds_); }
  std::vector<double> exposed() const {  // by unit
    std::vector<double> medians;
    for (const std::vector<double>& unit : exposed_) medians.push_back(median(unit));
    return medians;
  }

 private:
  std::vector<double> seconds_;
  std::vector<std::vector<double>> exposed_;
};

struct Candidate {
  Unit unit;
  double exposed;  // seconds per step
  bool kept = false;
};

class Adaptive {
 public:
  Bytes spend;
  uint32_t measure = 5;
  double least_gain = 0.01;
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<Adaptive> options[] = {
      {"spend", &Adaptive::spend, "on kept units, where [memory] budget does not say it"},
      {"measure", &Adaptive::measure, 1, 10000, "steps that are measured before a decision"},
      {"least_gain", &Adaptive::least_gain, 0, 1, "of a step's time: what keeping must promise, and then show"},
      {"prefetch_forward", &Adaptive::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &Adaptive::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  // True where the plan is to change: to keep what pays, or to take that back.
  bool feedback(const Feedback& step) {
    if (state_ == State::settled || step.first_of_plan() || step.skipped()) return false;
    measured_.add(step);
    if (measured_.steps() < measure) return false;
    const double seconds = measured_.seconds();
    const std::vector<double> exposed = measured_.exposed();
    measured_ = {};
    return state_ == State::measuring ? try_to_keep(seconds, exposed) : take_back(seconds);
  }

  void decide(const Problem& problem, Plan& plan) const {
    if (problem.budget_bytes() == 0 && spend.value == 0)
      throw ProblemError("neither memory.budget nor its option `spend` says how much it may keep; set one, as in " +
                         std::string("[memory] budget = \"2 GiB\""));
    Decision decision;
    decision.after_forward = After::free;
    decision.after_backward = After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units()) plan.set(unit, decision, why_freed_);
    if (exposed_.empty()) return;
    std::vector<Candidate> order = candidates(problem);
    const std::string peak = keep_what_fits(problem, plan, decision, order);
    for (const Candidate& candidate : order) {
      const std::string bytes = bytes_text(candidate.unit.bytes()), time = seconds_text(candidate.exposed);
      set(plan, candidate, decision,
          candidate.kept ? "kept: its gather in backward was exposed for " + time + " a step, for " + bytes + peak
                         : "freed: exposed for " + time + " a step, but its " + bytes + " do not fit" + peak);
    }
  }

 private:
  enum class State { measuring, trying, settled };

  bool try_to_keep(double seconds, const std::vector<double>& exposed) {
    double promised = 0;
    for (const double unit : exposed) promised += unit;
    before_ = seconds;
    if (promised <= 0 || promised < least_gain * seconds) {
      state_ = State::settled;
      return false;
    }
    exposed_ = exposed;
    state_ = State::trying;
    why_freed_ = "freed: its gather in backward was hidden";
    return true;
  }

  bool take_back(double seconds) {
    state_ = State::settled;
    if (before_ - seconds >= least_gain * before_) return false;
    exposed_.clear();
    why_freed_ = "freed again: keeping units made no step faster";
    return true;
  }

  // The most exposed time per byte first.
  std::vector<Candidate> candidates(const Problem& problem) const {
    std::vector<Candidate> order;
    for (const Unit& unit : problem.units())
      if (unit.bytes() > 0 && unit.index() < exposed_.size() && exposed_[unit.index()] > 0)
        order.push_back({unit, exposed_[unit.index()]});
    std::stable_sort(order.begin(), order.end(), [](const Candidate& a, const Candidate& b) {
      return a.exposed * static_cast<double>(b.unit.bytes()) > b.exposed * static_cast<double>(a.unit.bytes());
    });
    return order;
  }

  static void set(Plan& plan, const Candidate& candidate, Decision decision, const std::string& reason) {
    decision.after_forward = candidate.kept ? After::keep : After::free;
    plan.clear(candidate.unit);
    plan.set(candidate.unit, decision, reason);
  }

  // A kept unit adds its bytes to the peak at most: what fits by bytes is kept without a question, and then the host
  // says what the peak really is, until nothing more fits. Returns what the peak and its limit are, for reasons.
  std::string keep_what_fits(const Problem& problem, Plan& plan, const Decision& decision,
                             std::vector<Candidate>& order) const {
    int64_t peak = plan.predicted_peak();
    if (peak < 0) throw ProblemError("this host cannot predict the peak, without which no budget can be kept");
    const int64_t limit = problem.budget_bytes() > 0 ? problem.budget_bytes() : peak + spend.value;
    for (int question = 0; question < kMostQuestions; ++question) {
      std::vector<Candidate*> added;
      int64_t room = limit - peak;
      for (Candidate& candidate : order) {
        if (candidate.kept || candidate.unit.bytes() > room) continue;
        room -= candidate.unit.bytes();
        candidate.kept = true;
        set(plan, candidate, decision, "");
        added.push_back(&candidate);
      }
      if (added.empty()) break;
      const int64_t now = plan.predicted_peak();
      if (now > limit) {  // a host that counts otherwise is right
        for (Candidate* candidate : added) candidate->kept = false, set(plan, *candidate, decision, "");
        break;
      }
      peak = now;
    }
    return "; peak " + bytes_text(peak) + " of " + bytes_text(limit);
  }

  State state_ = State::measuring;
  Measurement measured_;
  std::vector<double> exposed_;  // by unit, as measured, to keep units by; empty: nothing is kept
  double before_ = 0;            // seconds of a step that keeps nothing
  const char* why_freed_ = "freed: nothing is measured yet";
};

}  // namespace

RESHARD_STRATEGY(Adaptive, "adaptive", "1.0.0",
                 "keeps the units whose gathers were measured to cost time, within the budget")
