#pragma once

// Collectives of one rank with the other ranks of its group. Every member calls the same collectives in the same order;
// a call returns when this rank's part is done and its buffers may be reused.
//
//   all_gather       every rank's shard, in the order of ranks, into every rank's own whole buffer
//   reduce_scatter   the sum over ranks of slice r, at rank r
//   all_reduce       the sum over ranks, at every rank
//   broadcast        the root's bytes, at every rank
//   exchange         one small value per rank, at every rank
//   barrier          nobody goes on before everybody has come
//
// Sums are taken in one fixed order, whatever the size, the alignment or the timing: ranks in pairs of neighbours,
// bottom up, (0+1), (2+3), … then pairs of those, an odd one passing up. "Rank" there and in all buffers is the place
// in this group. They are taken in the output's format: a bf16 term is exact in fp32; for an output in bf16, fp32 terms
// are rounded to it first, and each addition is done in fp32 and rounded.
//
// Threads: one thread at a time uses a communicator; fail(), interrupt(), interrupted(), check() and leave() may be
// called from any thread.
//
// Errors (reshard::Error) end the collectives of this group and of every group that was split from the same one:
// - communication: two ranks are in different collectives (op, unit, bytes or dtype): both are named, on all members;
//   or, finally, a rank did not come within the timeout.
// - rank_failed: another rank called interrupt(); or, finally, fail(), or leave() while this one waits for it. Waiting
//   ranks learn of it within 100 ms.
// What is not final, recover() mends. Buffers may hold anything after an error; no other rank touches this rank's
// buffers after the call has thrown. A collective that returned at one rank returns at every member, unless somebody
// interrupts from outside of it: a rank that is no member, or another thread of one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "reshard/dtype.h"
#include "reshard/error.h"

namespace reshard::comm {

// What a collective is for. It is compared among the ranks together with the collective's kind, its size and its formats;
// ranks meet by its number, which errors say. The name is read for error texts only; it must live until the call returns.
struct Tag {
  int unit = -1;  // -1: not for one unit
  std::string_view unit_name = {};
  std::optional<Dtype> dtype = {};  // of a gather's or a broadcast's values, none: plain bytes; reductions name theirs
};

// output[i] = ([output[i] +] sum over ranks of input[i]) [* scale]: one addition after the sum is complete, then one
// multiplication unless scale is 1. In bf16 both results are rounded. With scale 1 / ranks on the last micro-batch
// alone, the divisor is applied once.
struct ReduceOptions {
  bool add_to_output = false;
  float scale = 1.0F;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;  // 0 … size() - 1, within this group
  virtual int size() const = 0;

  // `whole` holds size() * shard_bytes bytes. `shard` may be its own place in `whole`, which saves that copy.
  virtual void all_gather(const void* shard, size_t shard_bytes, void* whole, const Tag& tag) = 0;

  // `input` holds size() * count values, `output` count, each aligned for its format. Without add_to_output and with
  // equal formats, `output` may be slice rank() of `input`; otherwise they do not overlap.
  virtual void reduce_scatter(const void* input, Dtype input_dtype, void* output, Dtype output_dtype, size_t count,
                              const ReduceOptions& options, const Tag& tag) = 0;

  // Both hold `count` values. Without add_to_output, `output` may be `input`. With add_to_output, `output` holds the
  // same values on every rank beforehand (an accumulator of earlier all_reduce calls); so it does afterwards.
  virtual void all_reduce(const void* input, void* output, Dtype dtype, size_t count, const ReduceOptions& options,
                          const Tag& tag) = 0;

  virtual void broadcast(void* data, size_t bytes, int root, const Tag& tag) = 0;

  virtual void barrier(const Tag& tag) = 0;

  // `all` holds size() * bytes bytes: every rank's `mine`, in the order of ranks.
  virtual void exchange(const void* mine, size_t bytes, void* all, const Tag& tag) = 0;

  // The same for a plain struct.
  template <class Value>
  void exchange(const Value& mine, std::span<Value> all, const Tag& tag) {
    static_assert(std::is_trivially_copyable_v<Value>);
    exchange_checked(&mine, sizeof(Value), all.data(), all.size(), tag);
  }

  // A communicator of the given ranks of this group, in that order; this rank must be among them, each once. The
  // members call it, the others need not. It may be used beside this one, by another thread too. The caller keeps it.
  virtual std::unique_ptr<Communicator> group(std::span<const int> ranks) = 0;

  // This rank cannot go on: every rank in a collective, or that enters one, gets an Error(rank_failed) with the
  // message. The first failure or interruption of all ranks is the one that is reported. Final.
  virtual void fail(std::string_view message) noexcept = 0;

  // This rank gives up what all ranks are doing, but can go on afterwards: the others get the same error as with
  // fail(), until all have called recover(). Interrupting twice, or after a failure, changes nothing.
  virtual void interrupt(std::string_view message) noexcept = 0;

  // Whether a collective would throw because of some rank's failure or interruption: one load, for a rank that computes
  // for long. check() throws that error ("rank 0: rank 1 failed: …").
  virtual bool interrupted() const = 0;
  virtual void check() const = 0;

  // Collective over all ranks, on the communicator that all groups were made from, interrupted or not: waits for every
  // rank, as long as a collective does, then forgets the interruption. All communicators may be used again then,
  // whatever collective each was in; a group that only some of its members had asked for is there for the others when
  // they ask. REQUIRES: this rank is in no collective of any communicator on any thread, and calls neither interrupt()
  // nor check() meanwhile. Throws the final failure if there is one, whatever came before it.
  virtual void recover() = 0;

  // This rank is done and will call no further collective. Ranks that wait for it get an error; others go on.
  virtual void leave() noexcept = 0;

 protected:
  Communicator() = default;

 private:
  void exchange_checked(const void* mine, size_t bytes, void* all, size_t all_count, const Tag& tag);
};

}  // namespace reshard::comm
