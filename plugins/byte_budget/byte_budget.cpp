// byte_budget: zero3, but memory that the budget leaves is spent on keeping units from forward to backward: first those
// that save the most exposed gather time per byte, as long as the predicted peak stays within [memory] budget.
//
//   per rank at rest   P/N parameters
//   per rank at peak   at most the budget
//   sent per rank      (N-1)/N * M * (2P - K + G)
//
// P parameter bytes, K of them in kept units, G gradient bytes, N ranks of a shard group, M micro-batches.
// Exposed: what is left of a gather when the backward of the unit before it, which it runs beside, has ended.

#include <reshard/strategy.hpp>

#include <algorithm>

namespace {

using reshard::sdk::After;
using reshard::sdk::Bytes;
using reshard::sdk::bytes_text;
using reshard::sdk::Decision;
using reshard::sdk::Field;
using reshard::sdk::Plan;
using reshard::sdk::Problem;
using reshard::sdk::ProblemError;
using reshard::sdk::Reduce;
using reshard::sdk::seconds_text;
using reshard::sdk::Unit;

// Every question about the peak drives a whole step through the host's scheduler; so many bound the time of a plan.
constexpr int kMostQuestions = 48;

struct Candidate {
  Unit unit;
  double gather, exposed;  // seconds
  bool kept = false;

  double worth(double seconds) const { return seconds / static_cast<double>(unit.bytes()); }
};

// Finds what fits. A kept unit is whole for longer and changes nothing else, so the peak grows with every one, by its
// bytes at most: what fits by bytes needs no question, and in a run of candidates the first that does not is bisected.
class Search {
 public:
  Search(Plan& plan, const Decision& decision, std::vector<Candidate>& order, int64_t budget, int64_t peak)
      : plan_(plan), decision_(decision), order_(order), budget_(budget), peak_(peak) {}

  int64_t peak() const { return peak_; }

  void run() {
    std::size_t from = 0;
    while (from < order_.size() && questions_ < kMostQuestions) from = take_run(from) + 1;
    // With the questions used up, what fits by its bytes is still taken, and one more question says what it cost.
    while (take_by_bytes()) {
    }
  }

 private:
  int64_t left() const { return budget_ - peak_; }

  // Keeps as many candidates from `from` on as fit; returns the first that does not, or their number.
  std::size_t take_run(std::size_t from) {
    std::size_t fits = from,
                fails = order_.size() + 1;  // ends of the longest run known to fit, the shortest known not to
    std::size_t next = from, step = 1;
    for (int64_t room = left(); next < order_.size() && order_[next].unit.bytes() <= room; ++next)
      room -= order_[next].unit.bytes();
    if (next == from) ++next;
    while (fails - fits > 1) {
      const int64_t peak = ask(from, next);
      if (peak <= budget_)
        fits = next, peak_ = peak;
      else
        fails = next;
      next = fails <= order_.size() ? fits + (fails - fits) / 2 : std::min(fits + step, order_.size());
      step *= 2;
    }
    show(from, fits);
    return fits;
  }

  // Keeps every candidate that fits by its bytes. False: there was none, or a host that counts otherwise refuted it.
  bool take_by_bytes() {
    std::vector<Candidate*> added;
    int64_t room = left();
    for (Candidate& candidate : order_) {
      if (candidate.kept || candidate.unit.bytes() > room) continue;
      room -= candidate.unit.bytes();
      set(candidate, true);
      added.push_back(&candidate);
    }
    if (added.empty()) return false;
    const int64_t peak = plan_.predicted_peak();
    if (peak <= budget_) return peak_ = peak, true;
    for (Candidate* candidate : added) set(*candidate, false);
    return false;
  }

  int64_t ask(std::size_t from, std::size_t end) {
    show(from, end);
    ++questions_;
    return plan_.predicted_peak();
  }

  // Of the candidates from `from` on, those before `end` are kept.
  void show(std::size_t from, std::size_t end) {
    for (std::size_t i = from; i < end; ++i)
      if (!order_[i].kept) set(order_[i], true);
    for (std::size_t i = end; i < order_.size() && order_[i].kept; ++i) set(order_[i], false);
  }

  void set(Candidate& candidate, bool keep) {
    candidate.kept = keep;
    Decision decision = decision_;
    decision.after_forward = keep ? After::keep : After::free;
    plan_.clear(candidate.unit);
    plan_.set(candidate.unit, decision, "");
  }

  Plan& plan_;
  const Decision decision_;
  std::vector<Candidate>& order_;
  const int64_t budget_;
  int64_t peak_;
  int questions_ = 0;
};

struct ByteBudget {
  Bytes bytes_per_second{int64_t{10} << 30};
  double latency = 20e-6;
  double flops_per_second = 100e9;
  uint32_t prefetch_forward = 1;
  uint32_t prefetch_backward = 1;

  static constexpr Field<ByteBudget> options[] = {
      {"bytes_per_second", &ByteBudget::bytes_per_second, "of a gather, where the host has no estimate of its own"},
      {"latency", &ByteBudget::latency, 0, 1, "seconds that a gather of nothing takes, the same"},
      {"flops_per_second", &ByteBudget::flops_per_second, 1, 1e18, "of the backward that a gather runs beside"},
      {"prefetch_forward", &ByteBudget::prefetch_forward, 0, 8, "units to gather ahead in the forward pass"},
      {"prefetch_backward", &ByteBudget::prefetch_backward, 0, 8, "units to gather ahead in the backward pass"},
  };

  double gather_seconds(const Problem& problem, const Unit& unit) const {
    if (unit.seconds_gather() > 0) return unit.seconds_gather();
    const double ranks = problem.ranks(), rate = static_cast<double>(std::max<int64_t>(bytes_per_second.value, 1));
    return latency + static_cast<double>(unit.bytes()) * (ranks - 1) / ranks / rate;
  }

  // The most exposed time per byte first, then the most time; of equals the one that backward needs first, which is
  // whole for the shortest time.
  std::vector<Candidate> candidates(const Problem& problem) const {
    std::vector<Candidate> order;
    double beside = 0;  // seconds of compute that a prefetched gather runs beside
    for (const Unit& unit : reshard::sdk::backward_order(problem.units())) {
      const double gather = gather_seconds(problem, unit);
      if (unit.bytes() > 0) order.push_back({unit, gather, std::max(0.0, gather - beside)});
      beside = prefetch_backward > 0 ? unit.flops_backward() / flops_per_second : 0;
    }
    std::stable_sort(order.begin(), order.end(), [](const Candidate& a, const Candidate& b) {
      if (a.worth(a.exposed) != b.worth(b.exposed)) return a.worth(a.exposed) > b.worth(b.exposed);
      return a.worth(a.gather) > b.worth(b.gather);
    });
    return order;
  }

  void decide(const Problem& problem, Plan& plan) const {
    const int64_t budget = problem.budget_bytes();
    if (budget == 0)
      throw ProblemError("memory.budget is not set, and it keeps units as far as that budget goes; set it, as in " +
                         std::string("[memory] budget = \"2 GiB\""));
    Decision decision;
    decision.after_forward = After::free;
    decision.after_backward = After::free;
    decision.reduce = Reduce::each;
    decision.prefetch_forward = prefetch_forward;
    decision.prefetch_backward = prefetch_backward;
    for (const Unit& unit : problem.units())
      plan.set(unit, decision, unit.bytes() == 0 ? "owns no parameters" : "one rank gathers nothing");
    const int64_t least = plan.predicted_peak();
    if (least < 0) throw ProblemError("this host cannot predict the peak, without which no budget can be kept");
    if (least > budget)
      throw ProblemError("memory.budget is " + bytes_text(budget) +
                         ", and before it keeps any unit the predicted peak is " + bytes_text(least) + " per rank, " +
                         bytes_text(least - budget) +
                         " more; use more ranks or smaller micro-batches, or raise the budget");
    if (problem.ranks() == 1) return;
    std::vector<Candidate> order = candidates(problem);
    Search search(plan, decision, order, budget, least);
    search.run();
    const std::string left = bytes_text(budget - search.peak());
    const std::string standing = "; peak " + bytes_text(search.peak()) + " of budget " + bytes_text(budget);
    for (const Candidate& candidate : order) {
      const std::string bytes = bytes_text(candidate.unit.bytes());
      decision.after_forward = candidate.kept ? After::keep : After::free;
      plan.clear(candidate.unit);
      plan.set(candidate.unit, decision,
               (!candidate.kept ? "freed: its " + bytes + " exceed the " + left + " left"
                : candidate.exposed > 0
                    ? "kept: saves " + seconds_text(candidate.exposed) + " of exposed gather for " + bytes
                    : "kept: saves a hidden gather of " + seconds_text(candidate.gather) + " for " + bytes) +
                   standing);
    }
  }
};

}  // namespace

RESHARD_STRATEGY(ByteBudget, "byte_budget", "1.0.0", "keeps what saves most gather time per byte within the budget")
