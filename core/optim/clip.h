#pragma once

// Clipping by the global gradient norm, which does not depend on how the gradients are sharded.
//
// Squares are summed in fp64 within each block of 64 elements of the layout (model::kBlock), always in the same order (a square of an
// fp32 number is exact in fp64). The block sums are then added *exactly*, in fixed point, so neither the order of the
// blocks nor their distribution over ranks plays a part. Only norm() rounds.
//
// How a step uses it: each rank adds its shard's gradients to a NormSum, the sums are all-gathered as plain bytes
// within one shard group (replicas hold the same gradients), every rank merges them in any order, and all have the same
// norm.

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "model/layout.h"
#include "optim/instructions.h"

namespace reshard::optim {

// A trivially copyable value of 168 bytes; not shared between threads without care of the caller's.
class NormSum {
 public:
  static constexpr int64_t kBlock = model::kBlock;  // what the layout aligns parameters and shards to

  // Adds all blocks of `gradient`, which must begin at a block's start in the layout; only its last block may be short.
  // Zeros at the end change nothing, so a shard may be added whole, padding and all, or parameter by parameter.
  void add(std::span<const float> gradient, Instructions set = best_instructions());

  // As if everything added to `other` had been added here.
  void merge(const NormSum& other);

  // False when any gradient was NaN or infinite.
  bool finite() const { return nan_blocks_ == 0 && infinite_blocks_ == 0; }

  // The exact sum of the block sums, rounded once to fp64 (nearest, ties to even); NaN or infinity when not finite().
  double squared_norm() const;

  // The square root of squared_norm(), which IEEE rounds once more.
  double norm() const;

 private:
  void add_block(double sum);
  void carry();

  // Every block sum is a multiple of 2^-298 (the square of the smallest fp32 number) below 2^263. Limb i counts units
  // of 2^(32 i - 298). Limbs are kept wider than 32 bits and carried before they could overflow.
  static constexpr int kLimbs = 18;
  std::array<int64_t, kLimbs> limbs_{};
  int64_t nan_blocks_ = 0, infinite_blocks_ = 0;
  int64_t pending_ = 0;  // additions since the last carry
};
static_assert(std::is_trivially_copyable_v<NormSum>);

// The largest magnitude of `gradient`; NaN when one of them is.
double largest_magnitude(std::span<const float> gradient);

// The larger one; NaN when either is.
double larger(double a, double b);

// What every gradient is multiplied by: 1 when clip_norm is 0 (off), else min(1, clip_norm / (norm + 1e-6)), which is
// torch.nn.utils.clip_grad_norm_'s rule. Computed in fp64 and rounded once to fp32; torch computes it in fp32, so the
// factors may differ in the last place. REQUIRES: clip_norm >= 0, norm finite.
float clip_factor(double norm, double clip_norm);

}  // namespace reshard::optim
