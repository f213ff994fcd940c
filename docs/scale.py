"""Measure the figures of docs/scale.md and draw its chart (``python docs/scale.py``, about ten minutes).

Quality is simulated: all replicas of a round learn in this process, one after the other.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from streamgmm import datasets
from streamgmm.cluster.round_length import RoundLength
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from streamgmm.engines.shares import learn_share

PLACE = Path(__file__).parent / "pictures" / "scale.png"
NETWORK = 1.25e9  # bytes per second: ten gigabits
STARTS = 40  # rounds while annealing lasts


def quality(x: np.ndarray, test: np.ndarray, replicas: int, per_replica: int, scale: str, seed: int) -> float:
    """Return the exact test log-likelihood after one pass, with no rounds at all if ``replicas`` is 0."""
    trainer = Trainer(Settings(64, scale=scale), x.shape[1], np.float32, engine=Serial(), seed=seed)
    x, done = x[np.random.default_rng(seed).permutation(len(x))], 0
    if replicas == 0:
        trainer.feed(x)
        done = len(x)
    length = RoundLength(per_replica)
    while trainer.warming_up:
        trainer.feed(x[done : done + 200])
        done += 200
    while done < len(x):
        rows = min(length.next_round(trainer, replicas), len(x) - done)
        start, cuts = trainer.begin_round(replicas), np.linspace(done, done + rows, replicas + 1).astype(int)
        shares = [learn_share(start, r, x[cuts[r] : cuts[r + 1]]) for r in range(replicas)]
        trainer.merge_round(start, shares)
        done += rows
    trainer.flush()
    return float(trainer.mixture.scores(test).log_likelihood.mean())


def cost(components: int, features: int, replicas: int = 4) -> tuple[float, float, int]:
    """Return CPU seconds per sample once annealing is over, those to merge a replica, and bytes of a replica."""
    rng = np.random.default_rng(0)
    centres = rng.random((components, features), np.float32)
    trainer = Trainer(Settings(components, annealing=False), features, np.float32, engine=Serial(), seed=0)

    def rows(n: int) -> np.ndarray:
        return 0.7 * centres[rng.integers(0, components, n)] + 0.3 * rng.random((n, features), np.float32)

    for _ in range(4):
        trainer.feed(rows(2 * components + 400))
    start = trainer.begin_round(replicas)
    some = rows(max(200, components))
    learn_share(start, 0, some[:10])
    began = time.thread_time()
    learned = [learn_share(start, 0, some)]
    per_sample = (time.thread_time() - began) / len(some)
    learned += [learn_share(start, r, some) for r in range(1, replicas)]
    began = time.thread_time()
    trainer.merge_round(start, learned)
    merge = (time.thread_time() - began) / replicas
    return per_sample, merge, sum(v.nbytes for v in start.tensors.values())


def predicted(per_sample: float, merge: float, size: int, replicas: int, round_samples: int, samples: float) -> float:
    """Return the seconds of a run: learning, and in every round sending replicas through one network card, and merging.

    The start of a round reaches every machine once, its replicas come back one by one, and one machine merges them.
    """
    growing, n = float(STARTS), 160_000.0
    while n / 16 < round_samples * replicas and n < samples:  # rounds that are still short
        growing, n = growing + 1, n * (1 + 1 / 16)
    rounds = growing + max(0.0, samples - n) / (round_samples * replicas)
    return samples * per_sample / replicas + rounds * replicas * (2 * size / NETWORK + merge)


def draw_quality(axis: Any) -> None:
    """Print and draw what replicas cost, beside a training that knows no rounds; three seeds, two for 64 replicas."""
    data = datasets.load("fashionmnist")
    x, test = datasets.scaled(data.x_train), datasets.scaled(data.x_test)
    for scale in ("none", "auto"):
        base = np.array([quality(x, test, 0, 1, scale, seed) for seed in range(3)])
        print(f"quality, scale={scale}: serial {base.mean():.1f} ± {base.std(ddof=1):.1f}", flush=True)
        changes = []
        for replicas in (1, 2, 8, 64):
            seeds = range(3 if replicas < 64 else 2)
            found = np.array([quality(x, test, replicas, 1000, scale, seed) for seed in seeds])
            changes.append(100 * (found.mean() / base[: len(found)].mean() - 1))
            print(f"  {replicas} replicas: {found.mean():.1f} ({changes[-1]:+.2f} %)", flush=True)
        axis.plot([1, 2, 8, 64], changes, "o-", label=f'scale="{scale}"')


def main() -> None:
    """Print tables and draw the chart."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    costs = {(k, d): cost(k, d) for k in (64, 256, 1024) for d in (784, 3072)}
    for (k, d), (per_sample, merge, size) in costs.items():
        per, merging = 1e6 * per_sample, 1e3 * merge
        print(f"cost K={k} D={d}: {per:.0f} µs/sample, merge {merging:.1f} ms/replica, {size >> 20} MB", flush=True)
    per_sample, merge, size = costs[1024, 3072]
    counts = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    for round_samples in (1000, 10_000, 100_000):
        times = np.array([predicted(per_sample, merge, size, int(r), round_samples, 1e9) for r in counts])
        axes[1].loglog(counts, times / 3600, "o-", label=f"{round_samples:,} samples a round")
        print(
            f"prediction, {round_samples} samples a round:",
            dict(zip(counts.tolist(), (times / 3600).round(2).tolist(), strict=True)),
        )
    axes[1].loglog(counts, 1e9 * per_sample / counts / 3600, "k:", label="without rounds")
    draw_quality(axes[0])
    axes[0].set(
        xscale="log", xlabel="replicas", ylabel="change of test log-likelihood (%)", title="FashionMNIST, one pass"
    )
    axes[1].set(xlabel="replicas", ylabel="hours", title="10⁹ samples, D = 3072, K = 1024: predicted")
    for axis in axes:
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PLACE, dpi=110)


if __name__ == "__main__":
    main()
