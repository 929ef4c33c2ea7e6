#include "plugin/answers.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "plugin/host.h"
#include "plugin/log.h"
#include "plugin/status.h"

namespace reshard::plugin {
namespace {

constexpr uint32_t kKnownFields = RESHARD_SET_AFTER_FORWARD | RESHARD_SET_AFTER_BACKWARD | RESHARD_SET_REDUCE |
                                  RESHARD_SET_PREFETCH_FORWARD | RESHARD_SET_PREFETCH_BACKWARD;
constexpr uint32_t kMostRanks = std::numeric_limits<int>::max();
constexpr std::size_t kLongestReason = 256;

// What is wrong with a decision, as in "answered WHAT for unit h.0"; empty when it is one.
std::string fault(const reshard_decision& decision) {
  if ((decision.set & ~kKnownFields) != 0)
    return fmt::format("fields that this host does not know ({:#x})", decision.set);
  if ((decision.set & RESHARD_SET_AFTER_FORWARD) != 0) {
    if (decision.after_forward > RESHARD_SHRINK)
      return fmt::format("after_forward = {}, not free (0), keep (1) or shrink (2)", decision.after_forward);
    if (decision.after_forward == RESHARD_SHRINK && (decision.shrink_ranks < 1 || decision.shrink_ranks > kMostRanks))
      return fmt::format("after_forward = shrink to {} ranks, not to at least 1", decision.shrink_ranks);
  }
  if ((decision.set & RESHARD_SET_AFTER_BACKWARD) != 0 && decision.after_backward > RESHARD_KEEP)
    return fmt::format("after_backward = {}, not free (0) or keep (1)", decision.after_backward);
  if ((decision.set & RESHARD_SET_REDUCE) != 0 && decision.reduce > RESHARD_LAST)
    return fmt::format("reduce = {}, not each (0) or last (1)", decision.reduce);
  if ((decision.set & RESHARD_SET_PREFETCH_FORWARD) != 0 && decision.prefetch_forward > kMaxPrefetch)
    return fmt::format("prefetch_forward = {}, outside 0 … {}", decision.prefetch_forward, kMaxPrefetch);
  if ((decision.set & RESHARD_SET_PREFETCH_BACKWARD) != 0 && decision.prefetch_backward > kMaxPrefetch)
    return fmt::format("prefetch_backward = {}, outside 0 … {}", decision.prefetch_backward, kMaxPrefetch);
  return {};
}

UnitAnswer answer(const reshard_decision& decision, std::string reason) {
  UnitAnswer out;
  out.reason = std::move(reason);
  const auto set = [&](uint32_t field) { return (decision.set & field) != 0; };
  if (set(RESHARD_SET_AFTER_FORWARD))
    out.after_forward = decision.after_forward == RESHARD_FREE ? AfterForward::free()
                        : decision.after_forward == RESHARD_KEEP
                            ? AfterForward::keep()
                            : AfterForward::shrink(static_cast<int>(decision.shrink_ranks));
  if (set(RESHARD_SET_AFTER_BACKWARD))
    out.after_backward = decision.after_backward == RESHARD_FREE ? AfterBackward::free : AfterBackward::keep;
  if (set(RESHARD_SET_REDUCE)) out.reduce = decision.reduce == RESHARD_EACH ? Reduce::each : Reduce::last;
  if (set(RESHARD_SET_PREFETCH_FORWARD)) out.prefetch_forward = static_cast<int>(decision.prefetch_forward);
  if (set(RESHARD_SET_PREFETCH_BACKWARD)) out.prefetch_backward = static_cast<int>(decision.prefetch_backward);
  return out;
}

}  // namespace

ProblemTable::ProblemTable(const Problem& problem) : raw_{} {
  for (const ProblemUnit& unit : problem.units)
    units_.push_back({.name = text(unit.name),
                      .parent = unit.parent,
                      .flags = unit.root ? uint32_t{RESHARD_UNIT_ROOT} : 0,
                      .bytes = unit.bytes,
                      .trainable_bytes = unit.trainable_bytes,
                      .gradient_bytes = unit.gradient_bytes,
                      .flops_forward = unit.flops_forward,
                      .flops_backward = unit.flops_backward,
                      .seconds_gather = unit.seconds_gather});
  raw_.struct_size = sizeof raw_;
  raw_.ranks = static_cast<uint32_t>(problem.ranks);
  raw_.ranks_per_node = static_cast<uint32_t>(problem.ranks_per_node);
  raw_.microbatches = static_cast<uint32_t>(problem.microbatches);
  raw_.budget_bytes = problem.budget_bytes;
  raw_.seed = problem.seed;
  raw_.units = units_.data();
  raw_.unit_count = static_cast<uint32_t>(units_.size());
  raw_.unit_size = sizeof(reshard_unit);
}

// The C functions: each finds its sink and lets nothing be thrown into the plugin.
struct AnswerSink::Table {
  template <class Body>
  static int32_t guarded(void* context, reshard_error* error, const Body& body) noexcept {
    auto* sink = static_cast<AnswerSink*>(context);
    try {
      return body(*sink);
    } catch (...) {
      sink->host_failure_ = std::current_exception();
      return fail(error, RESHARD_HOST_FAILED, "the host failed");
    }
  }

  static int32_t set_unit(void* context, uint32_t unit, const reshard_decision* decision, reshard_text reason,
                          reshard_error* error) noexcept {
    return guarded(context, error, [&](AnswerSink& sink) { return sink.set_unit(unit, decision, reason, error); });
  }
  static int32_t set_shard_over(void* context, uint32_t ranks, reshard_text reason, reshard_error* error) noexcept {
    return guarded(context, error, [&](AnswerSink& sink) { return sink.set_shard_over(ranks, reason, error); });
  }
  static int32_t set_all_reduce(void* context, uint32_t when, reshard_text reason, reshard_error* error) noexcept {
    return guarded(context, error, [&](AnswerSink& sink) { return sink.set_all_reduce(when, reason, error); });
  }
  static int32_t clear(void* context, uint32_t unit, reshard_error* error) noexcept {
    return guarded(context, error, [&](AnswerSink& sink) { return sink.clear(unit, error); });
  }
  static int32_t predicted_peak(void* context, int64_t* bytes, reshard_error* error) noexcept {
    return guarded(context, error, [&](AnswerSink& sink) { return sink.predicted_peak(bytes, error); });
  }
};

AnswerSink::AnswerSink(const Problem& problem) : problem_(problem), units_(problem.units.size()), table_{} {
  table_.struct_size = sizeof table_;
  table_.context = this;
  table_.set_unit = &Table::set_unit;
  table_.set_shard_over = &Table::set_shard_over;
  table_.set_all_reduce = &Table::set_all_reduce;
  table_.clear = &Table::clear;
  table_.predicted_peak = &Table::predicted_peak;
}

void AnswerSink::rethrow() const {
  if (host_failure_) std::rethrow_exception(host_failure_);
}

Answers AnswerSink::take() {
  return answers();
}

int32_t AnswerSink::refuse(const std::string& what, reshard_error* error) {
  if (refused_.empty()) refused_ = what;
  return fail(error, RESHARD_BAD_ANSWER, what);
}

int32_t AnswerSink::set_unit(uint32_t unit, const reshard_decision* decision, reshard_text reason,
                             reshard_error* error) {
  if (unit >= units_.size())
    return refuse(fmt::format("answered for unit {}; the problem has {} units, from 0", unit, units_.size()), error);
  const std::string& name = problem_.units[unit].name;
  if (decision == nullptr || !RESHARD_HAS(reshard_decision, decision, prefetch_backward))
    return refuse(fmt::format("answered an incomplete decision for unit {}", name), error);
  if (units_[unit])
    return refuse(fmt::format("answered twice for unit {} without clearing the first answer", name), error);
  if (const std::string what = fault(*decision); !what.empty())
    return refuse(fmt::format("answered {} for unit {}", what, name), error);
  units_[unit] = answer(*decision, printable(view(reason), kLongestReason));
  return RESHARD_OK;
}

int32_t AnswerSink::set_shard_over(uint32_t ranks, reshard_text reason, reshard_error* error) {
  if (shard_over_) return refuse("answered shard_over twice without clearing the first answer", error);
  if (ranks > kMostRanks)
    return refuse(fmt::format("answered shard_over = {}, more ranks than there can be", ranks), error);
  shard_over_ = static_cast<int>(ranks);
  shard_over_reason_ = printable(view(reason), kLongestReason);
  return RESHARD_OK;
}

int32_t AnswerSink::set_all_reduce(uint32_t when, reshard_text reason, reshard_error* error) {
  if (all_reduce_) return refuse("answered all_reduce twice without clearing the first answer", error);
  if (when > RESHARD_LAST)
    return refuse(fmt::format("answered all_reduce = {}, not each (0) or last (1)", when), error);
  all_reduce_ = when == RESHARD_EACH ? AllReduce::each : AllReduce::last;
  all_reduce_reason_ = printable(view(reason), kLongestReason);
  return RESHARD_OK;
}

int32_t AnswerSink::clear(uint32_t unit, reshard_error* error) {
  if (unit == RESHARD_EVERYTHING) {
    units_.assign(units_.size(), std::nullopt);
    shard_over_.reset();
    all_reduce_.reset();
    shard_over_reason_.clear(), all_reduce_reason_.clear();
    return RESHARD_OK;
  }
  if (unit >= units_.size())
    return refuse(fmt::format("cleared unit {}; the problem has {} units, from 0", unit, units_.size()), error);
  units_[unit].reset();
  return RESHARD_OK;
}

int32_t AnswerSink::predicted_peak(int64_t* bytes, reshard_error* error) {
  if (bytes == nullptr) return refuse("asked for the predicted peak with nowhere to put it", error);
  *bytes = problem_.predicted_peak ? problem_.predicted_peak(answers()) : -1;
  return RESHARD_OK;
}

Answers AnswerSink::answers() const {
  Answers out;
  for (const std::optional<UnitAnswer>& unit : units_) out.units.push_back(unit.value_or(UnitAnswer{}));
  out.shard_over = shard_over_;
  out.all_reduce = all_reduce_;
  out.plan_reason = shard_over_reason_;
  if (!all_reduce_reason_.empty() && all_reduce_reason_ != shard_over_reason_)
    out.plan_reason += (out.plan_reason.empty() ? "" : "; ") + all_reduce_reason_;
  return out;
}

}  // namespace reshard::plugin
