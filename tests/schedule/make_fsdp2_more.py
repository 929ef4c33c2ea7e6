"""Record more of what PyTorch FSDP2 does: recompute, frozen units, hybrid meshes, shrinking and evaluation in more
combinations than tests/golden/make_fsdp2.py, which does the recording.

    pip install torch numpy
    python make_fsdp2_more.py fsdp2_more.json      (made with PyTorch 2.15)

Three arguments are not the recorder's own:
    run(program=[2, "evaluate", 1])      after a warm-up: a step of 2 micro-batches, an evaluation, a step of 1 (`micro` is
                                         what the warm-up and the first step run)
    build(unused=(1,))                   block 1 does not run; its unit's settings get "unused": true
    build(tok_needed=False)              tok.set_unshard_in_backward(False); "needs_parameters_in_backward": false
"""
import json, os, subprocess, sys, tempfile

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
 "split_eval": (2, (2,), dict(root=UNSET, blocks=True, split=True), dict(eval_between=True)),
 "split_eval_false": (2, (2,), dict(root=UNSET, blocks=False, split=True), dict(eval_between=True)),
 "split_eval_mixed_micro3": (2, (2,), dict(root=UNSET, blocks=True, split=True, n=4, per_block=[True, False, None, False]), dict(micro=3, eval_between=True)),
 "split_eval_shrink_micro2": (4, (4,), dict(root=UNSET, blocks=2, split=True), dict(micro=2, eval_between=True)),
 "split_eval_hybrid": (4, (2, 2), dict(root=UNSET, blocks=True, split=True), dict(micro=2, recipe="all_reduce_last", eval_between=True)),
 "split_eval_frozen_recompute": (2, (2,), dict(root=UNSET, blocks=True, split=True, freeze=(0, 2), recompute=True), dict(micro=2, eval_between=True)),
 "split_eval_sync_last": (2, (2,), dict(root=UNSET, blocks=True, split=True), dict(micro=4, recipe="sync_last", eval_between=True)),
 "split_zero1": (2, (2,), dict(root=UNSET, blocks=False, split=True), dict(micro=3, recipe="zero1")),
 "split_zero1_true": (2, (2,), dict(root=UNSET, blocks=True, split=True), dict(micro=2, recipe="zero1")),
 "split_zero1_eval": (2, (2,), dict(root=UNSET, blocks=False, split=True), dict(micro=2, recipe="zero1", eval_between=True)),
 "split_zero1_shrink_eval": (4, (4,), dict(root=UNSET, blocks=2, split=True), dict(micro=2, recipe="zero1", eval_between=True)),
 "split_zero1_hybrid": (4, (2, 2), dict(root=UNSET, blocks=False, split=True), dict(micro=2, recipe="zero1")),
 "split_keep_back": (2, (2,), dict(root=UNSET, blocks=False, split=True), dict(micro=3, recipe="sync_last_keep")),
 "split_prefetch1": (2, (2,), dict(root=UNSET, blocks=True, split=True, prefetch=1), {}),
 "split_prefetch2": (2, (2,), dict(root=UNSET, blocks=True, split=True, prefetch=2, n=4), dict(micro=2)),
 "split_prefetch2_eval": (2, (2,), dict(root=UNSET, blocks=True, split=True, prefetch=2, n=4), dict(eval_between=True)),
 "split_prefetch3_zero1_eval": (2, (2,), dict(root=UNSET, blocks=False, split=True, prefetch=3, n=4), dict(micro=2, recipe="zero1", eval_between=True)),
 "prefetch2_eval_true": (2, (2,), dict(root=True, blocks=True, prefetch=2, n=4), dict(eval_between=True)),
 "split_tok_not_needed": (2, (2,), dict(root=UNSET, blocks=True, split=True, tok_needed=False), {}),
 "split_tok_not_needed_eval": (2, (2,), dict(root=UNSET, blocks=True, split=True, tok_needed=False), dict(micro=2, eval_between=True)),
 "unused_0_eval": (2, (2,), dict(root=UNSET, blocks=True, unused=(0,)), dict(eval_between=True)),
 "unused_1_split_micro2": (2, (2,), dict(root=UNSET, blocks=True, split=True, unused=(1,)), dict(micro=2)),
 "unused_1_2_false_zero1": (2, (2,), dict(root=False, blocks=False, unused=(1, 2)), dict(micro=2, recipe="zero1")),
 "program_eval_first": (2, (2,), dict(root=UNSET, blocks=True, split=True), dict(program=["evaluate", 1])),
 "program_eval_last": (2, (2,), dict(root=True, blocks=True), dict(micro=2, program=[2, "evaluate"])),
 "program_eval_twice": (2, (2,), dict(root=UNSET, blocks=True, split=True), dict(program=[1, "evaluate", "evaluate", 1, "evaluate"])),
 "program_eval_false": (2, (2,), dict(root=False, blocks=False, split=True), dict(micro=2, program=["evaluate", 2, "evaluate", 3])),
 "program_eval_shrink": (4, (4,), dict(root=2, blocks=2), dict(micro=2, program=["evaluate", "evaluate", 2, "evaluate", 2])),
 "program_eval_zero1": (4, (2, 2), dict(root=UNSET, blocks=False, split=True), dict(micro=2, recipe="zero1", program=["evaluate", 2, "evaluate", 2])),
 "program_steps": (2, (2,), dict(root=UNSET, blocks=None, split=True), dict(program=[1, 2, 3, 1])),
 "one_rank": (1, (1,), dict(root=UNSET, blocks=True, split=True), dict(micro=2, eval_between=True)),
 "hybrid_2x1": (2, (2, 1), dict(root=UNSET, blocks=True), dict(micro=2, recipe="all_reduce_last")),
 "hybrid_1x2": (2, (1, 2), dict(root=UNSET, blocks=True, split=True), dict(eval_between=True)),
 "not_a_divisor": (4, (4,), dict(root=UNSET, blocks=3), {}),
}

def forward(s, i):
    x = s.tok(i)
    for j, b in enumerate(s.blocks):
        if j not in s.unused: x = checkpoint(b, x, use_reentrant=False) if s.recompute else b(x)
    return s.out(s.norm(x))
Net.unused, Net.forward = (), forward

recorded_build, recorded_run = build, run
def build(mesh, unused=(), tok_needed=True, **k):
    m = recorded_build(mesh, **k); m.unused = unused
    if not tok_needed: m.tok.set_unshard_in_backward(False)
    return m

def run(m, micro=1, recipe=None, program=None, **k):
    if program is None: return recorded_run(m, micro, recipe, **k)
    recorded_run(m, micro, recipe, steps=1); EV.clear()
    for part in program:
        if part == "evaluate":
            with torch.no_grad(): EV.append(["evaluate"]); m(torch.randint(0, 16, (2, 4)))
        else:
            warm_up = list(EV); recorded_run(m, part, recipe, steps=1); EV[:0] = warm_up
"""

SETTINGS = r"""
recorded_settings = settings
def settings(n):
    s = recorded_settings(n); b, r = SC[n][2:4]
    s["evaluate_between"] |= "evaluate" in (r.get("program") or ())
    for u in s["units"]:
        if u["name"] in [f"blocks.{i}" for i in b.get("unused", ())]: u["unused"] = True
        if u["name"] == "tok" and not b.get("tok_needed", True): u["needs_parameters_in_backward"] = False
    return s

"""

recorder = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "make_fsdp2.py")).read()
before, rest = recorder[:recorder.index("SC = {")], recorder[recorder.index("def rank_main"):]
rest = rest.replace("enumerate((2, 4))", "enumerate((1, 2, 3, 4))").replace("if __name__", SETTINGS + "if __name__")
with tempfile.NamedTemporaryFile("w", suffix=".py") as script:  # a file: every rank's process imports it
    script.write(before + SCENARIOS + "\n" + rest)
    script.flush()
    if subprocess.call([sys.executable, script.name, sys.argv[1]]): sys.exit(1)
traces = json.load(open(sys.argv[1]))
with open(sys.argv[1], "w") as out:  # two lines a trace
    out.write("{\n" + ",\n".join(f' {json.dumps(n)}: {{"settings": {json.dumps(t["settings"])},\n  "events": {json.dumps(t["events"])}}}'
                                 for n, t in traces.items()) + "\n}\n")
