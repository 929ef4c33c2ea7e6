#include "schedule/totals.h"

namespace reshard::schedule {

void Totals::apply(Hook hook, int unit, int micro_batch, std::span<const Op> ops) {
  hook_ = hook;
  unit_ = about_unit(hook) ? unit : -1;
  micro_batch_ = micro_batch;
  const auto count = [](Traffic& traffic, int64_t bytes) { ++traffic.count, traffic.bytes += bytes; };
  for (const Op& op : ops) {
    switch (op.kind) {
      case OpKind::allocate: add(category(op.buffer), op.bytes); break;
      case OpKind::release: add(category(op.buffer), -op.bytes); break;
      case OpKind::free: add(MemoryCategory::whole_parameters, -op.bytes); break;
      case OpKind::shrink:
        add(MemoryCategory::whole_parameters, -op.bytes);
        count(traffic_.shrink, 0);
        break;
      case OpKind::gather: count(traffic_.gather, op.bytes); break;
      case OpKind::reduce: count(traffic_.reduce, op.bytes); break;
      case OpKind::all_reduce: count(traffic_.all_reduce, op.bytes); break;
      default: break;
    }
  }
}

void Totals::repeat(const TrafficByOp& before, int64_t times) {
  const auto more = [times](Traffic& traffic, const Traffic& then) {
    traffic.count += times * (traffic.count - then.count);
    traffic.bytes += times * (traffic.bytes - then.bytes);
  };
  more(traffic_.gather, before.gather);
  more(traffic_.shrink, before.shrink);
  more(traffic_.reduce, before.reduce);
  more(traffic_.all_reduce, before.all_reduce);
}

void Totals::add(MemoryCategory category, int64_t bytes) {
  now_[static_cast<std::size_t>(category)] += bytes;
  if (bytes <= 0 || sum(now_) <= sum(peak_)) return;
  peak_ = now_;
  peak_counted_ = true;
  peak_hook_ = hook_;
  peak_unit_ = unit_;
  peak_micro_batch_ = micro_batch_;
}

void Totals::take_peak(const Totals& other) {
  if (other.peak_bytes() <= peak_bytes()) return;
  peak_ = other.peak_;
  peak_counted_ = other.peak_counted_;
  peak_hook_ = other.peak_hook_;
  peak_unit_ = other.peak_unit_;
  peak_micro_batch_ = other.peak_micro_batch_;
}

int64_t Totals::sum(const BytesByCategory& bytes) {
  int64_t total = 0;
  for (const int64_t b : bytes) total += b;
  return total;
}

std::string moment_text(Hook hook, int micro_batch) {
  std::string text = name(hook);
  if (micro_batch >= 0) text += ", micro-batch " + std::to_string(micro_batch);
  return text;
}

MemoryPeak Totals::peak(const Model& model) const {
  MemoryPeak peak;
  peak.bytes = peak_;
  peak.unit = peak_unit_ < 0 ? "" : model.name({peak_unit_});
  peak.moment = peak_counted_ ? moment_text(peak_hook_, peak_micro_batch_) : "before the first step";
  return peak;
}

}  // namespace reshard::schedule
