#pragma once

// While an object of this lives, its thread's arithmetic takes numbers below fp32's normal range (1.2e-38) as zero and
// gives zero for them. A state tensor whose gradients have become zero (a token that no longer occurs) decays into that
// range and stays there, where every operation costs a trap into microcode: AdamW is 15 to 30 times slower then. All
// instruction sets obey the same switch, so bits stay equal. Call the arithmetic through a function that is not
// inlined.

#include <immintrin.h>

namespace reshard::optim {

class FlushSubnormals {
 public:
  FlushSubnormals() : before_{_mm_getcsr()} { _mm_setcsr(before_ | kFlushResults | kZeroOperands); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  static constexpr unsigned kFlushResults = 0x8000, kZeroOperands = 0x0040;
  unsigned before_;
};

}  // namespace reshard::optim
