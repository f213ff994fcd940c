"""[E23] Rows in a frame: the kernel learns (row − shift)·unit, whatever the rule, and sums what it has seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm.core import reference as eq
from streamgmm.core.grid import filters, torus
from streamgmm.native import FRAME_ROWS, FRAME_SUMS, EMStep, NaturalStep, Samples, SGDStep, Turn, diagonal
from tests.kernels import BOUNDS, Mixture, random_mixture
from tests.kernels.test_gaps_and_shares import with_gaps

RULES = ["sgd", "natural", "soft", "sem"]
SIZES = [(5, 7), (5, 129)]


def frame_of(rng: np.random.Generator, features: int, dtype: type) -> np.ndarray:
    """A frame of features with all kinds of locations and units, some of them mirrored; one is not active."""
    frame = np.zeros((FRAME_ROWS, features), dtype)
    frame[0] = rng.uniform(-100, 100, features)
    frame[1] = rng.choice([-1, 1], features) * np.exp(rng.normal(0, 2, features))
    frame[2], frame[2, features // 2] = 1, 0
    frame[3], frame[3, 0] = np.nan, 1
    frame[4] = rng.uniform(5, 15, features)
    return frame


def rows_in(frame: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Rows that are (nearly) the samples z in this frame."""
    shift, unit = frame[:2].astype(np.float64)
    return (shift + z / unit).astype(frame.dtype)


def learned(rule: str, p: Mixture, x: np.ndarray, sigma: float, **reading: Any) -> list[np.ndarray]:
    """Everything that one call changes, and its losses; ``p`` itself stays."""
    p, size = p.copy(), len(p)
    samples, g, variances, counts = (
        Samples(x, **reading),
        filters(torus(size), sigma),
        p.variances(),
        np.full(size, 7.0),
    )
    if rule == "sgd":
        report = diagonal.sgd_steps(p.model, samples, g, SGDStep(0.01, BOUNDS))
    elif rule == "sem":
        counts = eq.weights(p.logits)
        step = EMStep(rate=0.3, exponent=0.7, rate_min=0.01, first_step=3, scale_bounds=BOUNDS)
        report = diagonal.em_steps(p.model, p.moments(variances, counts), samples, step)
    else:
        natural = NaturalStep(growth=0.2, count_max=15.0, scale_bounds=BOUNDS, soft=rule == "soft")
        report = diagonal.natural_steps(p.model, p.moments(variances, counts), samples, g, natural, np.zeros(size))
    return [p.means, p.scales, p.logits, p.log_dets, variances, counts, report.losses, report.received, report.wins]


def assert_identical(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("components", "features"), SIZES)
def test_rows_in_a_frame_are_samples(
    width: str, rule: str, dtype: type, batch_size: int, gaps: bool, components: int, features: int
) -> None:
    """Bit for bit what samples teach that were computed before; and the sums are those of the reference."""
    rng = np.random.default_rng([features, batch_size])
    p = random_mixture(rng, components, features, dtype)
    frame = frame_of(rng, features, dtype)
    x = rows_in(frame, rng.normal(0, 1, (96, features)))
    x[3, 2], x[60, 5] = rows_in(frame, np.full((1, features), 40.0))[0, 2], -1e9  # beyond what is summed
    x[::3, 0] = 1  # the usual value
    x = with_gaps(x) if gaps else x
    z = eq.in_frame(x, *frame[:2], frame[2] != 0)
    assert z.dtype == dtype
    sums = eq.frame_sums(x.astype(np.float64), *(frame[i].astype(np.float64) for i in range(5)))
    for sigma in (0.8, 0.01):
        own = frame.copy()
        found = learned(rule, p, x, sigma, batch_size=batch_size, gaps=gaps, frame=own)
        assert_identical(found, learned(rule, p, z, sigma, batch_size=batch_size, gaps=gaps))
        np.testing.assert_array_equal(own[:FRAME_SUMS], frame[:FRAME_SUMS])
        np.testing.assert_array_equal(own[5:8], sums[:3])
        tolerance = 1e-4 if dtype is np.float32 else 1e-11
        np.testing.assert_allclose(own[8:], sums[3:], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_some_steps_are_summed_but_all_of_features_that_are_not_active(batch_size: int) -> None:
    rng = np.random.default_rng(2)
    p, frame = random_mixture(rng, 5, 7), frame_of(rng, 7, np.float64)
    x = rows_in(frame, rng.normal(0, 1, (40 * batch_size, 7)))
    turn = Turn(first=5, apart=3, every=8)
    own, step = frame.copy(), np.arange(len(x)) // batch_size
    learned("natural", p, x, 0.01, batch_size=batch_size, frame=own, turn=turn)
    chosen = (5 + 3 * step) % 8 == 0
    expected = np.where(frame[2] == 1, eq.frame_sums(x[chosen], *frame[:5]), eq.frame_sums(x, *frame[:5]))
    np.testing.assert_allclose(own[FRAME_SUMS:], expected, rtol=1e-11, atol=1e-11)
    assert (own[5] == np.where(frame[2] == 1, chosen.sum(), len(x))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_go_on_from_call_to_call(dtype: type) -> None:
    rng = np.random.default_rng(0)
    p = random_mixture(rng, 5, 7, dtype)
    whole = frame_of(rng, 7, dtype)
    parts = whole.copy()
    x = rows_in(whole, rng.normal(0, 1, (40, 7)))
    learned("natural", p, x, 0.01, frame=whole)
    for part in (x[:11], x[11:]):
        learned("natural", p, part, 0.01, frame=parts)
    np.testing.assert_array_equal(parts, whole)
    assert (whole[5] == 40).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("batch_size", [1, 16])
def test_rows_without_influence_are_not_summed(width: str, rule: str, batch_size: int) -> None:
    rng = np.random.default_rng(4)
    p, frame = random_mixture(rng, 5, 33), frame_of(rng, 33, np.float64)
    frame[4] = 1e300  # nothing is far
    x = rows_in(frame, rng.normal(0, 1, (96, 33)))
    x[[5, 60]] = rows_in(frame, np.full((2, 33), 1e9))
    own = frame.copy()
    learned(rule, p, x, 0.01, batch_size=batch_size, frame=own, typical_loss=np.array([100.0, -60, 20, 1, 0]))
    expected = eq.frame_sums(np.delete(x, [5, 60], 0), *frame[:5])
    np.testing.assert_allclose(own[FRAME_SUMS:], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("sigma", [0.8, 0.01])
@pytest.mark.parametrize("gaps", [False, True])
def test_what_hardly_known_features_cost_is_forgiven(
    width: str, rule: str, batch_size: int, sigma: float, gaps: bool
) -> None:
    """[E20] Only other features, or values that no unit explains, make a row extreme."""
    rng = np.random.default_rng(5)
    p, frame = random_mixture(rng, 5, 33), frame_of(rng, 33, np.float64)
    frame[2, 4:7] = 3
    z = rng.normal(0, 1, (96, 33))
    z[3, 4], z[10, 5:7] = 400.0, -300.0  # forgiven
    z[20, 4], z[21, 9], z[40, [5, 9]] = 1e5, 400.0, 300.0  # beyond any unit; well known; both kinds
    x = rows_in(frame, z)
    if gaps:
        x[::3, 1] = x[3, 5] = np.nan
    grid = torus(5)
    g = np.eye(5) if rule == "sem" else eq.smoothing_matrix(grid.rows, grid.columns, sigma)
    typical, expected, shares = np.array([100.0, -60, 20, 1, 0]), (100.0, -60.0, 20.0, 1.0, 0.0), list[float]()
    for start in range(0, len(x), batch_size):
        rows = x[start : start + batch_size]
        z = eq.in_frame(rows, *frame[:2], frame[2] != 0)
        logits, means, scales = p.logits, *(a.astype(np.float64) for a in (p.means, p.scales))
        f = eq.known_scores(z, logits, means, scales)
        for sample, scores, loss, k in zip(z, f, *eq.smoothed(f, g), strict=True):
            costs = [eq.cost_of_hardly_known(sample, *of, frame[2], frame[4]) for of in zip(means, scales, strict=True)]
            loss = np.logaddexp.reduce(scores) if rule == "sem" else loss
            share, _, expected = eq.influence(loss, expected, 33, float(g[k] @ costs))
            shares.append(share)
        own = frame.copy()
        learned(rule, p, rows, sigma, batch_size=batch_size, frame=own, typical_loss=typical, gaps=gaps)
    assert np.flatnonzero(np.array(shares) < 1).tolist() == [20, 21, 40]
    np.testing.assert_allclose(typical, expected, rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("features", [1, 33, 784])
def test_bytes_in_a_frame_are_the_numbers_they_are(
    width: str, rule: str, dtype: type, batch_size: int, features: int
) -> None:
    rng = np.random.default_rng(features)
    rows = rng.integers(256, size=(96, features), dtype=np.uint8)
    p = random_mixture(rng, 9, features, dtype)
    frame = np.ones((FRAME_ROWS, features), dtype)
    for factor in (1.0, 1 / 255):
        frame[0], frame[1] = factor * rng.uniform(0, 255, features), rng.uniform(0.01, 0.1, features) / factor
        here, there = frame.copy(), frame.copy()
        found = learned(rule, p, rows, 0.01, batch_size=batch_size, factor=factor, frame=here)
        numbers = rows.astype(dtype) * dtype(factor)
        assert_identical(found, learned(rule, p, numbers, 0.01, batch_size=batch_size, frame=there))
        np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_a_frame_without_shift_and_unit_changes_nothing(width: str, rule: str, dtype: type, batch_size: int) -> None:
    rng = np.random.default_rng(1)
    p = random_mixture(rng, 6, 129, dtype)
    x = rng.random((96, 129)).astype(dtype)
    frame = np.zeros((FRAME_ROWS, 129), dtype)
    frame[1:3] = 1
    for sigma in (0.8, 0.01):
        found = learned(rule, p, x, sigma, batch_size=batch_size, frame=frame)
        assert_identical(found, learned(rule, p, x, sigma, batch_size=batch_size))


def test_frames_that_do_not_fit_are_refused() -> None:
    p = random_mixture(np.random.default_rng(0), 4, 3)
    x = np.zeros((6, 3))
    for shape in ((12, 4), (12, 2), (2, 3), (13, 3)):
        with pytest.raises(ValueError, match=r"a frame must have the shape \(12, features\)"):
            learned("natural", p, x, 1.0, frame=np.ones(shape))
    wrong: list[np.ndarray] = [np.ones((12, 3), np.float32), np.ones((24, 3))[::2], np.ones(36), np.ones((12, 3), int)]
    for frame in wrong:  # never a silent copy, whose sums would be lost
        with pytest.raises(TypeError):
            learned("natural", p, x, 1.0, frame=frame)
