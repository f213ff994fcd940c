"""One row a call, against the kernel alone and against river; small models in chunks, and what share is Python's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.report import Table
from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.core.covariance import Work
from streamgmm.core.grid import filters

LEARNED, TOGETHER = 8000, 200
NAMES = "abcdefghijklmnopqrstuvwxyz"
Call = Callable[[int], object]
"""Handles the row with this number."""


def rows_and_small_models(quick: bool) -> list[Table]:
    """Measure single rows, data frames and small models.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer rounds.
    """
    rounds = 4 if quick else 15
    return [*(_one_row(k, d, rounds) for k, d in ((16, 12), (8, 10))), _frames(rounds), _small(rounds)]


def _blobs(count: int, features: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(3 * rng.normal(size=(6, features))[rng.integers(6, size=count)], 1.0)


def _quartiles(values: Any) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle), float(low), float(high)


def _one_row(components: int, features: int, rounds: int) -> Table:
    table = Table(
        f"One row a call, K={components}, D={features}",
        "Microseconds of each call (quartiles), the cases in turn, 200 rows at a time; the mean, which includes the "
        "checks that fall due; and the median above that of the kernel alone, in chunks. score + learn: each row is "
        "scored by the model that has learned all rows before it.",
        ["call", "µs", "mean µs", "above the kernel"],
    )
    x = _blobs(LEARNED + (rounds + 1) * TOGETHER, features)
    model = StreamingGaussianMixture(components, random_state=0).partial_fit(x[:LEARNED])
    kernel_learns, kernel_scores = _kernel(model, x[:LEARNED])
    cases = {**_ours(model, components, x), **_river(components, x)}
    found: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        rows = range(LEARNED + turn * TOGETHER, LEARNED + (turn + 1) * TOGETHER)
        for name, call in cases.items():
            for i in rows:
                begin = time.perf_counter()
                call(i)
                if turn:
                    found[name].append(1e6 * (time.perf_counter() - begin))
    for name, times in found.items():
        alone = kernel_scores * ("score" in name or "predict" in name) + kernel_learns * ("fit" in name)
        above = "" if name.startswith("river") else f"{np.median(times) - 1e6 * alone:.1f}"
        table.add(name, _quartiles(times), float(np.mean(times)), above)
    return table


def _kernel(model: StreamingGaussianMixture, x: np.ndarray) -> tuple[float, float]:
    """Return the CPU seconds that the kernel takes to learn a row, and to score one."""
    trainer = StreamingGaussianMixture(**model.get_params()).partial_fit(x).trainer_
    work = Work(trainer._samples(x), filters(trainer.grid, trainer.sigma), trainer.bounds)
    times = []
    for _ in range(5):
        begin = time.process_time()
        trainer.rule.advance(trainer._main.state, trainer.parameters, work)
        middle = time.process_time()
        trainer.mixture.scores(x)
        times.append((middle - begin, time.process_time() - middle))
    learns, scores = np.min(times, axis=0) / len(x)
    return float(learns), float(scores)


def _ours(model: StreamingGaussianMixture, components: int, x: np.ndarray) -> dict[str, Call]:
    other = StreamingGaussianMixture(components, random_state=0).partial_fit(x[:LEARNED])
    detector, judge = (
        StreamingAnomalyDetector(StreamingGaussianMixture(components, random_state=0)).partial_fit(x[:LEARNED])
        for _ in range(2)
    )
    return {
        "partial_fit": lambda i: other.partial_fit(x[i : i + 1]),
        "score_samples": lambda i: model.score_samples(x[i : i + 1]),
        "predict": lambda i: model.predict(x[i : i + 1]),
        "score_samples + partial_fit": lambda i: (other.score_samples(x[i : i + 1]), other.partial_fit(x[i : i + 1])),
        "detector: partial_fit": lambda i: detector.partial_fit(x[i : i + 1]),
        "detector: predict": lambda i: judge.predict(x[i : i + 1]),
        "detector: score_samples + partial_fit": lambda i: (
            detector.score_samples(x[i : i + 1]),
            detector.partial_fit(x[i : i + 1]),
        ),
    }


def _river(components: int, x: np.ndarray) -> dict[str, Call]:
    try:
        from river import anomaly, cluster

        from streamgmm.estimators.river import OnlineAnomalyDetector, OnlineMixture
    except ImportError:
        return {}
    ours, judge = OnlineMixture(components, seed=0), OnlineAnomalyDetector(components, seed=0)
    scaled = (x - x.min(0)) / (x.max(0) - x.min(0))  # which trees expect
    rows, shares = ([dict(zip(NAMES, row, strict=False)) for row in y.tolist()] for y in (x, scaled))
    means, trees = cluster.KMeans(n_clusters=components, seed=0), anomaly.HalfSpaceTrees(seed=0)
    for row, share in zip(rows[: LEARNED // 2], shares, strict=False):
        ours.learn_one(row)
        judge.learn_one(row)
        trees.learn_one(share)
    for row in rows[:500]:
        means.learn_one(row)
    return {
        "river face: learn_one": lambda i: ours.learn_one(rows[i]),
        "river face: predict_one": lambda i: ours.predict_one(rows[i]),
        "river face: score_one + learn_one": lambda i: (judge.score_one(rows[i]), judge.learn_one(rows[i])),
        "river KMeans: learn_one": lambda i: means.learn_one(rows[i]),
        "river KMeans: predict_one": lambda i: means.predict_one(rows[i]),
        "river HalfSpaceTrees: score_one": lambda i: trees.score_one(shares[i]),
        "river HalfSpaceTrees: score_one + learn_one": lambda i: (
            trees.score_one(shares[i]),
            trees.learn_one(shares[i]),
        ),
    }


def _frames(rounds: int) -> Table:
    table = Table(
        "Data frames",
        "K=16, D=12: time of a call with a data frame ÷ the same call with an array (quartiles).",
        ["call", "÷ array"],
    )
    try:
        import pandas as pd

        from streamgmm.estimators.river import OnlineMixture
    except ImportError:
        return table
    x = _blobs(LEARNED + 1000, 12)
    frame = pd.DataFrame(x, columns=list(NAMES[:12]))
    plain, named = (StreamingGaussianMixture(16, random_state=0).partial_fit(y[:LEARNED]) for y in (x, frame))
    online = OnlineMixture(16, seed=0)
    online.learn_many(frame[:LEARNED])
    many, one = slice(LEARNED, None), [(x[i : i + 1], frame[i : i + 1]) for i in range(LEARNED, LEARNED + 50)]
    cases: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "partial_fit, one row": (
            lambda: [plain.partial_fit(a) for a, _ in one],
            lambda: [named.partial_fit(f) for _, f in one],
        ),
        "score_samples, one row": (
            lambda: [plain.score_samples(a) for a, _ in one],
            lambda: [named.score_samples(f) for _, f in one],
        ),
        "partial_fit, 1000 rows": (lambda: plain.partial_fit(x[many]), lambda: named.partial_fit(frame[many])),
        "river face: learn_many, 1000 rows": (
            lambda: plain.partial_fit(x[many]),
            lambda: online.learn_many(frame[many]),
        ),
    }
    for name, (array, table_of_rows) in cases.items():
        ratios = []
        for _ in range(rounds):
            times = [time.perf_counter()]
            for call in (array, table_of_rows):
                call()
                times.append(time.perf_counter())
            ratios.append((times[2] - times[1]) / (times[1] - times[0]))
        table.add(name, _quartiles(ratios))
    return table


def _small(rounds: int) -> Table:
    table = Table(
        "Small models in chunks",
        "partial_fit on chunks of 20,000 rows, float64: samples per second of CPU time (quartiles), and the share of "
        "it that the kernel does not account for: checks fall due every 50 samples.",
        ["K", "D", "scale", "samples/s", "share of Python"],
    )
    for components, features in ((8, 8), (16, 12), (16, 16), (8, 32)):
        for scale in ("auto", "none"):
            x = np.random.default_rng(0).random((20_000, features))
            model = StreamingGaussianMixture(components, scale=scale, random_state=0).partial_fit(x)
            alone, _ = _kernel(model, x)
            rates = []
            for _ in range(rounds):
                begin = time.process_time()
                model.partial_fit(x)
                rates.append(len(x) / (time.process_time() - begin))
            table.add(components, features, scale, _quartiles(rates), f"{1 - alone * np.median(rates):.2f}")
    return table
