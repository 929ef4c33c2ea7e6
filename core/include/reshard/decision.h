#pragma once

// A strategy's answers: what to keep, what to free, when to reduce (design.md, "A decision").

#include <cstdint>
#include <string>

namespace reshard {

// What happens to a unit's whole parameters after its forward.
struct AfterForward {
  enum class Kind : uint8_t { free, keep, shrink };
  Kind kind = Kind::free;
  int ranks = 0;  // shrink only: the unit becomes partial(ranks), a 1/ranks shard over groups of `ranks` ranks

  static AfterForward free() { return {}; }
  static AfterForward keep() { return {Kind::keep, 0}; }
  static AfterForward shrink(int ranks) { return {Kind::shrink, ranks}; }
  bool operator==(const AfterForward&) const = default;
};

enum class AfterBackward : uint8_t { free, keep };  // keep: over the micro-batches of one step; the last always frees
enum class Reduce : uint8_t { each, last };         // every micro-batch, or accumulate whole and reduce in the last
enum class AllReduce : uint8_t { each, last };      // when replicas exchange their reduced shards

// What backward prefetches go back over. In the micro-batch's own pass, only what its backward comes to is gathered.
// The others are what FSDP2 does: behind the first unit lies the last one of an earlier pass, which backward is done
// with; where it is not whole, it is gathered, counted as unused and freed when the backward ends. A unit that owns
// nothing has no place in theirs.
enum class BackwardOrder : uint8_t {
  micro_batch,
  since_backward,  // of all passes, forward-only ones too, since a backward ended
  since_step,      // of all passes since the last backward of a step ended: FSDP2 with set_is_last_backward
};

inline constexpr int kMaxPrefetch = 8;

// One unit's decision. The defaults are the core's.
struct Decision {
  AfterForward after_forward{};
  AfterBackward after_backward = AfterBackward::free;
  Reduce reduce = Reduce::each;
  int prefetch_forward = 1;   // places ahead in the forward order that are gathered, 0 … kMaxPrefetch
  int prefetch_backward = 1;  // the same for the backward order
  bool operator==(const Decision&) const = default;
};

// The fields of a decision, for everything that is kept per field (who decided it, why).
enum class Field : uint8_t { after_forward, after_backward, reduce, prefetch_forward, prefetch_backward };
inline constexpr int kFields = 5;

const char* name(Field field);  // as spelled in TOML: "after_forward", …

// A field's value as TOML spells it: "free", "keep", "2" …
std::string value_text(const Decision& decision, Field field);
std::string value_text(AfterForward value);
const char* value_text(AfterBackward value);
const char* value_text(Reduce value);
const char* value_text(AllReduce value);
const char* value_text(BackwardOrder value);

}  // namespace reshard
