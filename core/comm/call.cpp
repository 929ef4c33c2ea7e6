#include "comm/call.h"

#include <fmt/format.h>

#include "reshard/text.h"

namespace reshard::comm {
namespace {

const char* name(Collective collective) {
  switch (collective) {
    case Collective::all_gather: return "all-gather";
    case Collective::reduce_scatter: return "reduce-scatter";
    case Collective::all_reduce: return "all-reduce";
    case Collective::broadcast: return "broadcast";
    case Collective::barrier: return "barrier";
    case Collective::exchange: return "exchange";
  }
  return "unknown";
}

// "fp32", "bf16 to fp32", "bytes".
std::string formats(const Call& call) {
  const auto name_of = [](std::optional<Dtype> dtype) { return dtype ? reshard::name(*dtype) : "bytes"; };
  if (call.input_dtype == call.output_dtype) return name_of(call.input_dtype);
  return fmt::format("{} to {}", name_of(call.input_dtype), name_of(call.output_dtype));
}

}  // namespace

std::string text(const Call& call) {
  std::string text = name(call.collective);
  if (call.tag.unit_name.empty()) return text;
  return text + (call.tag.unit >= 0 ? " of unit " : " of ") + std::string(call.tag.unit_name);
}

std::string full_text(const Call& call) {
  const std::string root = call.collective == Collective::broadcast ? fmt::format("root {}, ", call.root) : "";
  return fmt::format("{} ({}{} bytes, {})", text(call), root, base::count_text(static_cast<int64_t>(call.bytes)),
                     formats(call));
}

bool same(const Call& a, const Call& b) {
  return a.collective == b.collective && a.root == b.root && a.tag.unit == b.tag.unit && a.bytes == b.bytes &&
         a.input_dtype == b.input_dtype && a.output_dtype == b.output_dtype;
}

}  // namespace reshard::comm
