"""Record more of what PyTorch FSDP2 does: recompute, frozen units, hybrid meshes, shrinking and evaluation in more
combinations than tests/golden/make_fsdp2.py, which does the recording.

    pip install torch numpy
    python make_fsdp2_more.py fsdp2_more.json      (made with PyTorch 2.15)

Two scenarios are left out on purpose. An evaluation of a split model: FSDP2 keeps the evaluation's order and prefetches by
it in the next backward, where Reshard follows the micro-batch's own. Prefetching in a split model: the recorder sets a
distance within the blocks only, and its settings do not say so.
"""
import os, subprocess, sys, tempfile

SCENARIOS = r"""
SC = {
 "recompute_default": (2, (2,), dict(root=UNSET, blocks=UNSET, recompute=True), {}),
 "recompute_all_true": (2, (2,), dict(root=True, blocks=True, recompute=True), {}),
 "recompute_all_false": (2, (2,), dict(root=False, blocks=False, recompute=True), {}),
 "recompute_micro3": (2, (2,), dict(root=True, blocks=True, recompute=True), dict(micro=3)),
 "recompute_split": (2, (2,), dict(root=UNSET, blocks=True, split=True, recompute=True), {}),
 "recompute_prefetch2": (2, (2,), dict(root=True, blocks=True, recompute=True, prefetch=2, n=4), {}),
 "recompute_zero1": (2, (2,), dict(root=False, blocks=False, recompute=True), dict(micro=2, recipe="zero1")),
 "frozen_0": (2, (2,), dict(root=True, blocks=True, freeze=(0,)), {}),
 "frozen_2": (2, (2,), dict(root=True, blocks=True, freeze=(2,)), {}),
 "frozen_0_1": (2, (2,), dict(root=True, blocks=True, freeze=(0, 1)), {}),
 "frozen_1_micro3": (2, (2,), dict(root=True, blocks=True, freeze=(1,)), dict(micro=3)),
 "frozen_1_zero1": (2, (2,), dict(root=False, blocks=False, freeze=(1,)), dict(micro=3, recipe="zero1")),
 "frozen_1_recompute": (2, (2,), dict(root=True, blocks=True, freeze=(1,), recompute=True), {}),
 "frozen_split_1": (2, (2,), dict(root=UNSET, blocks=True, split=True, freeze=(1,)), {}),
 "frozen_split_0": (2, (2,), dict(root=UNSET, blocks=True, split=True, freeze=(0,)), {}),
 "prefetch_3_n6": (2, (2,), dict(root=True, blocks=True, prefetch=3, n=6), {}),
 "prefetch_2_micro2": (2, (2,), dict(root=UNSET, blocks=True, prefetch=2, n=4), dict(micro=2)),
 "prefetch_2_false": (2, (2,), dict(root=False, blocks=False, prefetch=2, n=4), {}),
 "prefetch_2_mixed": (2, (2,), dict(root=True, blocks=True, prefetch=2, n=5, per_block=[True, False, True, False, True]), {}),
 "prefetch_2_mixed_micro2": (2, (2,), dict(root=True, blocks=True, prefetch=2, n=5, per_block=[True, False, True, False, True]), dict(micro=2)),
 "mixed_keep": (2, (2,), dict(root=True, blocks=True, n=5, per_block=[False, True, True, False, True]), {}),
 "split_false": (2, (2,), dict(root=UNSET, blocks=False, split=True), {}),
 "split_micro3": (2, (2,), dict(root=UNSET, blocks=True, split=True), dict(micro=3)),
 "eval_false": (2, (2,), dict(root=False, blocks=False), dict(eval_between=True)),
 "eval_true": (2, (2,), dict(root=True, blocks=True), dict(eval_between=True)),
 "eval_prefetch2": (2, (2,), dict(root=UNSET, blocks=True, prefetch=2, n=4), dict(eval_between=True)),
 "eval_mixed": (2, (2,), dict(root=UNSET, blocks=True, n=4, per_block=[True, False, True, False]), dict(eval_between=True)),
 "true_keep_after_backward_3": (2, (2,), dict(root=True, blocks=True), dict(micro=3, recipe="sync_last_keep")),
 "default_zero1_3": (2, (2,), dict(root=UNSET, blocks=UNSET), dict(micro=3, recipe="zero1")),
 "one_block": (2, (2,), dict(root=UNSET, blocks=UNSET, n=1), {}),
 "three_ranks": (3, (3,), dict(root=True, blocks=True), dict(micro=2)),
 "shrink_root_true": (4, (4,), dict(root=True, blocks=2), {}),
 "shrink_micro3": (4, (4,), dict(root=2, blocks=2), dict(micro=3)),
 "shrink_sync_last": (4, (4,), dict(root=2, blocks=2), dict(micro=3, recipe="sync_last")),
 "shrink_keep_back": (4, (4,), dict(root=2, blocks=2), dict(micro=3, recipe="sync_last_keep")),
 "shrink_prefetch2": (4, (4,), dict(root=True, blocks=2, prefetch=2, n=4), {}),
 "shrink_mixed": (4, (4,), dict(root=False, blocks=2, n=5, per_block=[2, True, False, 2, True]), {}),
 "shrink_recompute": (4, (4,), dict(root=2, blocks=2, recompute=True), {}),
 "shrink_eval": (4, (4,), dict(root=2, blocks=2), dict(eval_between=True)),
 "shrink_split": (4, (4,), dict(root=UNSET, blocks=2, split=True), {}),
 "hybrid_micro2": (4, (2, 2), dict(root=UNSET, blocks=True), dict(micro=2)),
 "hybrid_zero1": (4, (2, 2), dict(root=False, blocks=False), dict(micro=3, recipe="zero1")),
 "hybrid_sync_last": (4, (2, 2), dict(root=True, blocks=True), dict(micro=2, recipe="sync_last")),
 "hybrid_ar_last_true": (4, (2, 2), dict(root=True, blocks=True), dict(micro=2, recipe="all_reduce_last")),
 "hybrid_eval": (4, (2, 2), dict(root=UNSET, blocks=True), dict(eval_between=True)),
 "eval_micro3_true": (2, (2,), dict(root=True, blocks=True), dict(micro=3, eval_between=True)),
 "eval_micro3_mixed": (2, (2,), dict(root=UNSET, blocks=True, n=4, per_block=[True, False, True, False]), dict(micro=3, eval_between=True)),
 "eval_micro2_zero1": (2, (2,), dict(root=False, blocks=False), dict(micro=2, recipe="zero1", eval_between=True)),
 "eval_micro2_keep_back": (2, (2,), dict(root=UNSET, blocks=True), dict(micro=2, recipe="sync_last_keep", eval_between=True)),
 "eval_micro2_shrink": (4, (4,), dict(root=2, blocks=2), dict(micro=2, eval_between=True)),
 "eval_micro2_hybrid": (4, (2, 2), dict(root=UNSET, blocks=True), dict(micro=2, recipe="all_reduce_last", eval_between=True)),
 "hybrid_frozen": (4, (2, 2), dict(root=True, blocks=True, freeze=(1,)), {}),
}
"""

recorder = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "make_fsdp2.py")).read()
before, rest = recorder[:recorder.index("SC = {")], recorder[recorder.index("def rank_main"):]
rest = rest.replace("enumerate((2, 4))", "enumerate((2, 3, 4))")
with tempfile.NamedTemporaryFile("w", suffix=".py") as script:  # a file: every rank's process imports it
    script.write(before + SCENARIOS + "\n" + rest)
    script.flush()
    sys.exit(subprocess.call([sys.executable, script.name, sys.argv[1]]))
