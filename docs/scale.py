"""Measure the figures of docs/scale.md and draw its chart.

``python docs/scale.py`` prints and draws the figures in scale.json. ``python docs/scale.py costs quality`` measures
them again (a minute and ten on two idle cores).

Quality is simulated: all replicas of a round learn in this process, one after the other.
"""

from __future__ import annotations

import json
import sys
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
FIGURES = Path(__file__).with_suffix(".json")
REPLICAS = (1, 2, 8, 64)
SEEDS = {"none": 3, "auto": 6}  # without a cap on precisions, chance moves the result more


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
    """Return CPU seconds per sample once annealing is over, those to merge a replica, and bytes of a replica.

    The best of five rounds: models that do not fit into caches wait for memory, which other work may use, too.
    """
    rng = np.random.default_rng(0)
    centres = rng.random((components, features), np.float32)
    trainer = Trainer(Settings(components, annealing=False), features, np.float32, engine=Serial(), seed=0)

    def rows(n: int) -> np.ndarray:
        return 0.7 * centres[rng.integers(0, components, n)] + 0.3 * rng.random((n, features), np.float32)

    for _ in range(4):
        trainer.feed(rows(2 * components + 400))
    per_sample, merge, some = list[float](), list[float](), rows(max(200, components))
    for _ in range(5):
        start = trainer.begin_round(replicas)
        learn_share(start, 0, some[:10])
        began = time.thread_time()
        learned = [learn_share(start, 0, some)]
        per_sample.append((time.thread_time() - began) / len(some))
        learned += [learn_share(start, r, some) for r in range(1, replicas)]
        began = time.thread_time()
        trainer.merge_round(start, learned)
        merge.append((time.thread_time() - began) / replicas)
    return min(per_sample), min(merge), sum(v.nbytes for v in start.tensors.values())


def predicted(per_sample: float, merge: float, size: int, replicas: int, round_samples: int, samples: float) -> float:
    """Return the seconds of a run: learning, and in every round sending replicas through one network card, and merging.

    The start of a round reaches every machine once, its replicas come back one by one, and one machine merges them.
    """
    growing, n = float(STARTS), 160_000.0
    while n / 16 < round_samples * replicas and n < samples:  # rounds that are still short
        growing, n = growing + 1, n * (1 + 1 / 16)
    rounds = growing + max(0.0, samples - n) / (round_samples * replicas)
    return samples * per_sample / replicas + rounds * replicas * (2 * size / NETWORK + merge)


def measure_costs() -> dict[str, list[float]]:
    """Return the cost of models of several sizes, by ``K x D``."""
    found = {}
    for k, d in ((k, d) for k in (64, 256, 1024) for d in (784, 3072)):
        found[f"{k} x {d}"] = list(cost(k, d))
        print(f"measured the cost of {k} x {d}", flush=True)
    return found


def measure_quality() -> dict[str, dict[str, list[float]]]:
    """Return the test log-likelihood of every seed, by scale and number of replicas (0: without rounds)."""
    data = datasets.load("fashionmnist")
    x, test = datasets.scaled(data.x_train), datasets.scaled(data.x_test)
    found: dict[str, dict[str, list[float]]] = {scale: {} for scale in SEEDS}
    for scale, seeds in SEEDS.items():
        for replicas in (0, *REPLICAS):
            found[scale][str(replicas)] = [quality(x, test, replicas, 1000, scale, seed) for seed in range(seeds)]
            print(f"measured quality with {replicas} replicas, scale={scale}", flush=True)
    return found


def draw_quality(axis: Any, figures: dict[str, dict[str, list[float]]]) -> None:
    """Print and draw what replicas cost, beside a training that knows no rounds: every seed, and the mean."""
    for scale, found in figures.items():
        base = np.array(found["0"])
        print(f"quality, scale={scale}: serial {base.mean():.1f} ± {base.std(ddof=1):.1f}, {len(base)} seeds")
        changes = [100 * (np.mean(found[str(r)]) / base.mean() - 1) for r in REPLICAS]
        for r, change in zip(REPLICAS, changes, strict=True):
            now = np.array(found[str(r)])
            print(f"  {r} replicas: {now.mean():.1f} ± {now.std(ddof=1):.1f} ({change:+.2f} %)")
        [line] = axis.plot(REPLICAS, changes, "o-", label=f'scale="{scale}"')
        seeds = [(r, 100 * (value / base.mean() - 1)) for r in REPLICAS for value in found[str(r)]]
        axis.plot(*zip(*seeds, strict=True), ".", color=line.get_color(), alpha=0.4)


def draw_prediction(axis: Any, per_sample: float, merge: float, size: int) -> None:
    """Print and draw how long 10⁹ samples take."""
    counts = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    for round_samples in (1000, 10_000, 100_000):
        times = np.array([predicted(per_sample, merge, size, int(r), round_samples, 1e9) for r in counts])
        axis.loglog(counts, times / 3600, "o-", label=f"{round_samples:,} samples per replica and round")
        hours = dict(zip(counts.tolist(), (times / 3600).round(2).tolist(), strict=True))
        print(f"prediction in hours, {round_samples} samples per replica and round:", hours)
    axis.loglog(counts, 1e9 * per_sample / counts / 3600, "k:", label="without rounds")
    print(f"a round of 256 replicas: {256 * (2 * size / NETWORK + merge):.1f} s to send and merge")


def main() -> None:
    """Measure what is asked for, print tables and draw the chart."""
    figures = json.loads(FIGURES.read_text(encoding="utf8"))
    for name, measure in (("costs", measure_costs), ("quality", measure_quality)):
        if name in sys.argv[1:]:
            figures[name] = measure()
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf8")
    for name, (per_sample, merge, size) in figures["costs"].items():
        print(f"cost {name}: {1e6 * per_sample:.0f} µs/sample, merge {1e3 * merge:.1f} ms/replica, {size / 1e6:.1f} MB")
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    draw_quality(axes[0], figures["quality"])
    draw_prediction(axes[1], *figures["costs"]["1024 x 3072"])
    axes[0].set(
        xscale="log", xlabel="replicas", ylabel="change of test log-likelihood (%)", title="FashionMNIST, one pass"
    )
    axes[0].set_xticks(REPLICAS, [str(r) for r in REPLICAS])
    axes[1].set(xlabel="replicas", ylabel="hours", title="10⁹ samples, D = 3072, K = 1024: predicted")
    for axis in axes:
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PLACE, dpi=110)


if __name__ == "__main__":
    main()
