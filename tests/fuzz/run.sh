#!/usr/bin/env bash
# Fuzzes the three readers of foreign bytes with libFuzzer, under AddressSanitizer and UndefinedBehaviorSanitizer:
#   tests/fuzz/run.sh [SECONDS]      per target, 600 where nothing is said; needs clang (./setup --dev)
# Prints a line per target; exits with 1 and leaves the input in build-fuzz/crashes when one fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
cmake --preset fuzz > /dev/null
cmake --build --preset fuzz --target fuzz_main zero3 byte_budget
mkdir -p build-fuzz/crashes
status=0
for target in file job answers; do
  corpus=build-fuzz/corpus-$target
  mkdir -p "$corpus"
  log=build-fuzz/$target.log
  if RESHARD_FUZZ_TARGET=$target build-fuzz/tests/fuzz_main -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 \
      -max_len=65536 -artifact_prefix="build-fuzz/crashes/$target-" -print_final_stats=1 "$corpus" > "$log" 2>&1; then
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    covered=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
    printf '%-8s %6s s  %12s inputs  %6s edges  no fault\n' "$target" "$seconds" "$executed" "$covered"
  else
    printf '%-8s failed: see %s and build-fuzz/crashes\n' "$target" "$log"
    status=1
  fi
done
exit $status
