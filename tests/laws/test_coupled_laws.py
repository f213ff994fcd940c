"""Laws of covariances that couple features: chunks, files, replicas, units, bounds, gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from streamgmm import Natural, StochasticEM, StreamingGaussianMixture
from streamgmm.core.rules import Rule
from tests.conftest import assert_same_training, make_trainer, scales

KINDS = [("full", "natural"), ("full", "sem"), ("full", "sgd"), ("low_rank", "natural"), ("low_rank", "sem")]
kinds = pytest.mark.parametrize(("kind", "rule"), KINDS)


def correlated(count: int, features: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    means, roots = rng.normal(0, 0.5, (3, features)), rng.normal(0, 0.15, (3, features, features))
    own = rng.integers(3, size=count)
    return np.einsum("nij,nj->ni", roots[own], rng.normal(size=(count, features))) + means[own]


def model(kind: str, rule: str | Rule, **more: Any) -> StreamingGaussianMixture:
    options: dict[str, Any] = {"period": 100, "rank": 2, "random_state": 3, **more}
    return StreamingGaussianMixture(4, covariance_type=kind, rule=rule, **options)


def scipy_scores(m: StreamingGaussianMixture, x: np.ndarray) -> np.ndarray:
    found = []
    for row in x:
        o = ~np.isnan(row)
        parts = [
            np.log(w) + multivariate_normal(mean[o], c[np.ix_(o, o)]).logpdf(row[o])
            for w, mean, c in zip(m.weights_, m.means_, m.covariances_, strict=True)
        ]
        found.append(logsumexp(parts))
    return np.array(found)


@kinds
@scales
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_and_files_change_nothing(
    kind: str, rule: str, scale: str, batch_size: int, dtype: type, tmp_path: Path
) -> None:
    x = correlated(1500).astype(dtype)
    whole = model(kind, rule, scale=scale, batch_size=batch_size).partial_fit(x)
    cut = model(kind, rule, scale=scale, batch_size=batch_size)
    for start in range(0, 973, 7):
        cut.partial_fit(x[start : min(start + 7, 973)])
    cut.save(tmp_path / "model")
    cut = StreamingGaussianMixture.load(tmp_path / "model")
    cut.partial_fit(x[973:])
    assert_same_training(whole.trainer_, cut.trainer_)


@kinds
@scales
@pytest.mark.parametrize("gaps", [False, True])
def test_scores_are_scipys_during_training(kind: str, rule: str, scale: str, gaps: bool) -> None:
    x = correlated(1600)
    if gaps:
        x[np.random.default_rng(1).random(x.shape) < 0.2] = np.nan
        x = x[~np.isnan(x).all(1)]
    m = model(kind, rule, scale=scale, allow_nan=gaps, precision_max=None if scale == "auto" else 100)
    for start in range(0, len(x), 400):
        m.partial_fit(x[start : start + 400])
        expected = scipy_scores(m, x[:40])
        assert (np.abs(m.score_samples(x[:40]) - expected) <= 1e-8 * np.maximum(1, np.abs(expected))).all()


MERGED = [
    ("full", Natural()),
    ("full", StochasticEM(accumulate=0)),
    ("full", StochasticEM()),
    ("low_rank", Natural()),
    ("low_rank", StochasticEM(accumulate=0)),
    ("low_rank", StochasticEM()),
]


@pytest.mark.parametrize(("kind", "rule"), MERGED, ids=str)
@scales
@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("batch_size", [1, 40])
def test_one_batch_each_is_one_large_batch(kind: str, rule: Rule, scale: str, replicas: int, batch_size: int) -> None:
    """From the same state on, after some learning, so that factors have begun to grow."""
    x = correlated(2400 + replicas * batch_size)
    learned, rest = x[:2400], x[2400:]
    start: Any = {"n_components": 4, "covariance_type": kind, "rank": 2, "rule": rule, "scale": scale, "period": 10**6}
    start |= {"annealing": False, "means_init": correlated(4, seed=5), "batch_size": 2400}
    one, many = make_trainer(5, **start), make_trainer(5, threads=replicas, **start)
    one.feed(learned)
    facts, tensors = one.facts(), one.tensors()
    after = []
    for trainer, size in ((one, replicas * batch_size), (many, batch_size)):
        facts["settings"] |= {"batch_size": size}
        fresh = type(trainer).restore(facts, {**trainer.tensors(), **tensors}, trainer.engine)
        fresh.feed(rest)
        after.append(fresh.tensors())
    for name, expected in after[0].items():
        if name.startswith(("parameters.", "rule.")):
            np.testing.assert_allclose(after[1][name], expected, rtol=1e-10, atol=1e-10, err_msg=name)


def test_eigenvectors_stay_orthonormal() -> None:
    x = correlated(100_000, 4)
    for jobs in (1, 2):
        m = model("full", "sgd", scale="none", n_jobs=jobs, period=1000).partial_fit(x)
        rows = m.trainer_.parameters["factors"]
        unit = rows / np.linalg.norm(rows, axis=2, keepdims=True)
        np.testing.assert_allclose(unit @ unit.swapaxes(1, 2), np.tile(np.eye(4), (4, 1, 1)), atol=1e-6)
        assert np.linalg.norm(rows, axis=2).max() <= 20**0.5 * (1 + 1e-6)


@settings(max_examples=12)
@given(seed=st.integers(0, 1000), kind=st.sampled_from(["full", "low_rank"]))
def test_units_change_nothing(seed: int, kind: str) -> None:
    x = correlated(700)
    rng = np.random.default_rng(seed)
    a, b = rng.choice([-1, 1], 5) * 10.0 ** rng.integers(-4, 5, 5), rng.normal(0, 100, 5)
    b *= np.abs(a)
    here, there = (model(kind, "natural").partial_fit(rows) for rows in (x, a * x + b))
    np.testing.assert_allclose(
        there.score_samples(a * x + b), here.score_samples(x) - np.log(np.abs(a)).sum(), rtol=1e-5, atol=1e-4
    )


@kinds
@scales
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore")  # that there are few rows, or that some are extreme
@pytest.mark.parametrize("what", ["one row", "constant", "few rows", "extreme"])
def test_degenerate_components_stay_finite(kind: str, rule: str, scale: str, dtype: type, what: str) -> None:
    rng = np.random.default_rng(0)
    x = {
        "one row": np.tile(rng.random(12), (300, 1)),
        "constant": np.column_stack([rng.normal(size=(400, 9)), np.ones((400, 3))]),
        "few rows": rng.normal(size=(8, 12)),
        "extreme": np.concatenate([rng.normal(size=(300, 12)), np.full((3, 12), 1e12), rng.normal(size=(300, 12))]),
    }[what].astype(dtype)
    m = model(kind, rule, scale=scale, n_epochs=3)
    m.fit(x)
    assert np.isfinite(m.score_samples(x)).all()
    assert np.isfinite(m.covariances_).all()
    smallest = np.linalg.eigvalsh(m.covariances_.astype(np.float64)).min()
    assert smallest > 0
    if scale == "none":
        assert smallest >= 0.05 * (1 - 1e-3)
