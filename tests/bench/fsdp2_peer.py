"""A GPT-2-shaped model under PyTorch's FSDP2 on the CPU (gloo, one thread per rank), for tests/bench/peer.sh.

    pip install torch numpy
    python fsdp2_peer.py --ranks 2 --layers 6 --width 384 --heads 6 --sequence 128 --batch 4

Arms: plain (no runtime), freed (fully_shard with reshard_after_forward=True), kept (False), root_kept (None). They take
turns in blocks of steps; a JSON line per arm: {"mode", "ranks", "params", "step_ms"}: the median over turns of the slowest
rank's time, the first step of a turn left out.
"""
import argparse, json, os, statistics, time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

ARMS = {"plain": None, "freed": (True, True), "kept": (False, False), "root_kept": (True, None)}  # blocks, root


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.ln_1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.sequence, o.width)
        self.blocks = nn.ModuleList(Block(o.width, o.heads) for _ in range(o.layers))
        self.norm = nn.LayerNorm(o.width)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def build(arm, o, mesh):
    torch.manual_seed(0)
    model = Gpt(o)
    if ARMS[arm] is not None:
        blocks, root = ARMS[arm]
        for block in model.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=blocks)
        fully_shard(model, mesh=mesh, reshard_after_forward=root)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def rank_main(rank, o):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(o.port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=o.ranks)
    mesh = init_device_mesh("cpu", (o.ranks,))
    generator = torch.Generator().manual_seed(rank)
    inputs, targets = (torch.randint(0, o.vocabulary, (o.batch, o.sequence), generator=generator) for _ in range(2))
    arms = {arm: build(arm, o, mesh) for arm in ARMS}
    times = {arm: [] for arm in ARMS}

    def step(model, optimizer):
        model(inputs, targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    for turn in range(o.turns + 1):
        for arm in list(arms)[:: -1 if turn % 2 else 1]:
            step(*arms[arm])
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(o.steps):
                step(*arms[arm])
            mine = torch.tensor([(time.perf_counter() - begin) / o.steps])
            dist.all_reduce(mine, op=dist.ReduceOp.MAX)
            if turn:
                times[arm].append(mine.item())
    if rank == 0:
        count = sum(p.numel() for p in arms["plain"][0].parameters())
        for arm, seconds in times.items():
            print(json.dumps(dict(mode=arm, ranks=o.ranks, params=count, step_ms=round(statistics.median(seconds) * 1e3, 2))))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, value in dict(ranks=2, layers=6, width=384, heads=6, sequence=128, batch=4, vocabulary=256, turns=4, steps=3,
                            port=29517).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    mp.spawn(rank_main, (options,), nprocs=options.ranks)
