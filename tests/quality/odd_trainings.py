"""Trainings with random settings on odd rows: what they learn must stay finite, and answer whatever it is asked.

Each has a number, from which it can be made again: ``python -m tests.quality.odd_trainings 7`` shows training 7, and
``python -m tests.quality.odd_trainings 0 20000`` tries so many and prints those that fail.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgmm import StreamingGaussianMixture
from streamgmm.core.rows import LIMITS
from tests.quality.odd_data import odd_rows

KINDS = ("full", "full", "full", "full", "low_rank", "low_rank", "low_rank", "diag")
RULES = {"full": ("natural", "sem", "sgd"), "low_rank": ("natural", "sem"), "diag": ("natural", "sem", "sgd")}
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # files that are synced to a disk take time
ROUNDING = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-4}


class OddTraining(NamedTuple):
    """Settings of an estimator, and what it learns: with ``fit``, or in chunks; then ``more`` rows."""

    settings: dict[str, Any]
    what: str
    rows: np.ndarray
    weights: np.ndarray | None
    chunks: list[int] | None
    more: np.ndarray


def odd_training(number: int) -> OddTraining:
    """Make the training of this number."""
    rng = np.random.default_rng(number)
    kind = str(rng.choice(KINDS))
    settings = _settings(rng, kind, str(rng.choice(RULES[kind])))
    size = _size(rng, 1, 500), _size(rng, 1, 40)
    dtype = np.dtype(rng.choice([np.float32, np.float64]))
    what, rows = odd_rows(rng, size, dtype, settings["allow_nan"])
    if rng.random() < 0.1 and settings["scale"] == "none":
        settings["means_init"] = rng.normal(0, 1, (settings["n_components"], size[1]))
    if size[0] * size[1] < 100 and rng.random() < 0.1:
        settings["n_epochs"] = "auto"  # hundreds
    weights = None
    if rng.random() < 0.2:
        weights = rng.choice([0.0, 1e-9, 0.5, 1.0, 3.0], size[0])
        weights[0] = 1.0
    chunks = None
    if rng.random() < 0.6:
        chunks = np.unique(rng.integers(0, size[0], rng.integers(0, 6))).tolist()
    more = rows[rng.permutation(len(rows))[: _size(rng, 1, 60)]]
    return OddTraining(settings, what, rows, weights, chunks, more)


def _size(rng: np.random.Generator, least: int, most: int) -> int:
    """Draw a size, small ones as often as large ones."""
    return int(np.exp(rng.uniform(np.log(least), np.log(most + 1))))


def _settings(rng: np.random.Generator, kind: str, rule: str) -> dict[str, Any]:
    scale = str(rng.choice(["auto", "none"]))
    powers = (-6, 12) if scale == "none" else (-12, 24)
    return {
        "n_components": _size(rng, 1, 16),
        "covariance_type": kind,
        "rule": rule,
        "scale": scale,
        "precision_max": 10 ** rng.uniform(*powers) if rng.random() < (0.8 if scale == "none" else 0.2) else None,
        "batch_size": int(rng.choice([1, 4, 64])),
        "period": int(rng.choice([1, 7, 30, 100])) if rng.random() < 0.8 else None,
        "half_life": float(rng.choice([1, 20, 1000])) if rule != "sgd" and rng.random() < 0.3 else None,
        "allow_nan": bool(rng.random() < 0.4),
        "annealing": bool(rng.random() < 0.7),
        "reheat": bool(rng.random() < 0.2),
        "rank": int(rng.choice([1, 2, 8, 25])),
        "grid": str(rng.choice(["torus", "ring"])),
        "mean_range": float(rng.choice([0.1, 0.0, 100.0])),
        "n_jobs": int(rng.choice([1, 1, 1, 2])),
        "n_epochs": int(rng.choice([1, 1, 2])),
        "random_state": int(rng.integers(1000)),
    }


def problem_of(number: int) -> str | None:
    """Train, ask and continue; return what went wrong, if anything did."""
    case = odd_training(number)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        warnings.simplefilter("ignore")
        try:
            _try(case, Path(folder) / "model")
        except Exception as problem:
            if _is_documented(problem, case.rows):
                return None
            place = traceback.extract_tb(problem.__traceback__)
            ours = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in place if "numpy" not in f.filename]
            return f"{type(problem).__name__}: {problem!s:.150} in {' < '.join(reversed(ours[-4:]))}"
    return None


def _is_documented(problem: Exception, rows: np.ndarray) -> bool:
    """Tell whether an exception says truly that rows hold numbers beyond the limits, or nothing at all."""
    if type(problem) is not ValueError or rows.dtype.kind != "f":
        return False
    too_large = bool((np.abs(rows) > LIMITS[rows.dtype]).any())
    return too_large and "expected finite numbers within" in str(problem)


def _try(case: OddTraining, path: Path) -> None:
    model = StreamingGaussianMixture(**case.settings)
    if case.chunks is None:
        model.fit(case.rows, sample_weight=case.weights)
    else:
        for start, stop in zip([0, *case.chunks], [*case.chunks, len(case.rows)], strict=True):
            if start < stop:
                weights = None if case.weights is None else case.weights[start:stop]
                weights = None if weights is None or not weights.any() else weights  # which are refused
                model.partial_fit(case.rows[start:stop], sample_weight=weights)
    _check_learned(model, case.rows)
    model.save(path)
    loaded = StreamingGaussianMixture.load(path)
    model.partial_fit(case.more)
    loaded.partial_fit(case.more)
    np.testing.assert_array_equal(model.means_, loaded.means_)
    np.testing.assert_array_equal(model.precisions_, loaded.precisions_)
    _check_learned(loaded, case.rows)
    _check_answers(loaded, case.rows)


def _check_learned(model: StreamingGaussianMixture, rows: np.ndarray) -> None:
    _check_parameters(model)
    _check_bounds(model)
    scores = model.score_samples(rows)
    assert not np.isnan(scores).any(), "scores are NaN"
    assert (scores < np.inf).all(), "scores are infinite"
    assert np.isfinite(scores).all(), "losses are infinite"


def _check_parameters(model: StreamingGaussianMixture) -> None:
    names = ["weights_", "means_", "precisions_", "covariances_"]
    if model.covariance_type == "low_rank":
        names += ["factors_", "noise_variances_"]
    for name in names:
        values = getattr(model, name)
        assert np.isfinite(values).all(), f"{name} is not finite"
    assert abs(model.weights_.sum() - 1) < 1e-5, "weights do not sum to one"
    now = model.trainer_.current()
    assert now.samples == 0 or np.isfinite(now.loss), "the loss is not finite"
    each = model.mixture_.variances
    assert (np.isfinite(each) & (np.asarray(each) > 0)).all(), "variances are not positive"


def _check_bounds(model: StreamingGaussianMixture) -> None:
    """Bounds of scales, in the units of samples."""
    if model.scale != "none":
        return
    p, most = model.trainer_.parameters, model.precision_max or 20.0
    room = 1 + ROUNDING[p.dtype]
    bounds = p.kind.bounds(most)
    if model.covariance_type == "full":
        sizes = np.linalg.svd(p["factors"].astype(np.float64), compute_uv=False)
        rounding = 100 * np.finfo(p.dtype).eps * sizes[:, -1] ** -2.0  # of covariances that are almost singular
        assert (bounds.scale_max**-2.0 <= room * sizes[:, 0] ** -2.0 + rounding).all(), "scales exceed the largest one"
    else:
        assert (p["scales"] <= room * bounds.scale_max).all(), "scales exceed the largest one"
        assert (p["scales"] * room >= bounds.scale_min).all(), "scales are below the smallest one"


def _check_answers(model: StreamingGaussianMixture, rows: np.ndarray) -> None:
    some = rows[:: max(1, len(rows) // 3)]
    assert not np.isnan(model.max_component_score_samples(some)).any(), "best scores are NaN"
    shares = model.predict_proba(some)
    assert np.abs(shares.sum(1) - 1).max() < 1e-6, "probabilities do not sum to one"
    assert not np.isnan([model.bic(some), model.aic(some)]).any(), "criteria are NaN"
    known = ~np.isinf(model.mixture_.constants)  # of others there is nothing to draw from
    assert np.isfinite(model.sample(20)[0][:, known]).all(), "samples are not finite"
    for reasons in model.explain(some):
        for reason in reasons:
            assert not np.isnan(reason[1:]).any(), f"an explanation has NaN: {reason}"
    rng = np.random.default_rng(len(rows))
    holes = some.astype(model.means_.dtype)
    holes[rng.random(holes.shape) < 0.5] = np.nan
    holes[:, rng.integers(holes.shape[1])] = np.nan
    assert np.isfinite(model.impute(holes)[:, known]).all(), "imputed values are not finite"
    assert np.isfinite(model.conditional_sample(holes, 2)[..., known]).all(), "draws for gaps are not finite"
    mixture = model.mixture_
    for given in mixture.condition(holes):
        for values in (given.weights, given.means, given.covariances, given.precisions):
            assert np.isfinite(values).all(), "a conditional mixture is not finite"
    features = np.flatnonzero(rng.random(rows.shape[1]) < 0.5).tolist() or [0]
    part = mixture.marginal(features)
    for values in (part.weights, part.means, part.covariances, part.precisions):
        assert np.isfinite(values).all(), "a marginal mixture is not finite"
    known = some[:, features]
    assert not np.isnan(part.log_prob(known.astype(mixture.means.dtype))).any(), "a marginal scores NaN"


def main(first: int, stop: int | None) -> None:
    """Show one training, or try some and print what goes wrong."""
    if stop is None:
        case = odd_training(first)
        print(case.settings, case.what, case.rows.dtype, case.rows.shape, case.chunks, problem_of(first), sep="\n")
        return
    found = 0
    for number in range(first, stop):
        problem = problem_of(number)
        if problem is not None:
            found += 1
            print(number, problem, flush=True)
    print(f"{stop - first} trainings, {found} problems")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
