#!/usr/bin/env bash
# Our step and PyTorch's FSDP2, kernels included, on the same model and machine: the two programs run in turns, and the
# ratios of all pairs are printed. Needs the build (build/bench/step_bench) and a Python with torch and numpy
# (PYTHON=/path/to/python; pip install torch numpy takes about 3 GB): for this script alone.
#
#   tests/bench/peer.sh [rounds [ranks layers width heads sequence batch]]      default: 3 rounds of 2 6 384 6 128 4
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
python=${PYTHON:-python3}
rounds=${1:-3}
shape=("${@:2}")
((${#shape[@]})) || shape=(2 6 384 6 128 4)
((${#shape[@]} == 6)) || { echo "peer.sh: give all of: ranks layers width heads sequence batch" >&2; exit 2; }
[[ -x $build/bench/step_bench ]] || { echo "peer.sh: $build/bench/step_bench is not built: cmake --build --preset release -t step_bench" >&2; exit 2; }
"$python" -c 'import torch, numpy' 2> /dev/null || { echo "peer.sh: $python has no torch and numpy: pip install torch numpy, or set PYTHON" >&2; exit 2; }

results=$(mktemp)
trap 'rm -f "$results"' EXIT
for ((round = 1; round <= rounds; ++round)); do
  echo "round $round of $rounds" >&2
  "$build/bench/step_bench" "${shape[@]}" 3 3 --json | sed "s/^{/{\"round\": $round, \"by\": \"reshard\", /" >> "$results"
  "$python" "$top/tests/bench/fsdp2_peer.py" --ranks "${shape[0]}" --layers "${shape[1]}" --width "${shape[2]}" \
    --heads "${shape[3]}" --sequence "${shape[4]}" --batch "${shape[5]}" --turns 3 |
    sed "s/^{/{\"round\": $round, \"by\": \"pytorch\", /" >> "$results"
done

"$python" - "$results" <<'PY'
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
rounds = sorted({r["round"] for r in rows})
def ms(by, mode): return [next(r["step_ms"] for r in rows if r["round"] == n and r["by"] == by and r["mode"] == mode) for n in rounds]
ours = list(dict.fromkeys(r["mode"] for r in rows if r["by"] == "reshard"))
theirs = list(dict.fromkeys(r["mode"] for r in rows if r["by"] == "pytorch"))
print(f"{rows[0]['params'] / 1e6:.1f} M parameters, {rows[0]['ranks']} ranks, {len(rounds)} rounds; PyTorch's time / ours (above 1: ours is faster)")
print(f"{'':16} {'ms per step':>12} " + " ".join(f"{'FSDP2 ' + t if t != 'plain' else 'torch plain':>15}" for t in theirs))
print(f"{'':29} " + " ".join(f"{statistics.median(ms('pytorch', t)):12.1f} ms" for t in theirs))
for o in ours:
    ratios = [statistics.median(b / a for a, b in zip(ms("reshard", o), ms("pytorch", t))) for t in theirs]
    print(f"{o:16} {statistics.median(ms('reshard', o)):12.1f} " + " ".join(f"{r:15.2f}" for r in ratios))
PY
