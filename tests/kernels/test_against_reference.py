"""The kernel agrees with the reference for every width, both float types and awkward sizes."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm import native
from streamgmm.core import reference as eq
from streamgmm.core.grid import filters, ring, smoothing_matrix, torus
from streamgmm.native import diagonal
from tests.kernels import BOUNDS, Mixture, plain, random_mixture, sgd_steps

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-12}
SIZES = [(1, 1), (1, 5), (2, 33), (6, 1), (7, 31), (9, 16), (12, 784), (16, 129), (64, 50), (5, 2500), (67, 8300)]


def assert_close(found: np.ndarray, expected: np.ndarray, dtype: type) -> None:
    scale = np.abs(expected).max() if expected.size else 1.0
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)


def clear_winner(rng: np.random.Generator, p: Mixture, count: int) -> np.ndarray:
    """Samples close to one mean each, so that rounding decides no winner."""
    chosen = rng.integers(len(p), size=count)
    return (p.means[chosen] + rng.normal(0, 0.02, (count, p.n_features))).astype(p.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("components", "features"), SIZES)
def test_scores(width: str, dtype: type, components: int, features: int) -> None:
    rng = np.random.default_rng([components, features])
    p = random_mixture(rng, components, features, dtype)
    x = rng.random((11, features)).astype(dtype)
    exact = x.astype(np.float64)
    assert_close(diagonal.component_scores(p.model, x), eq.scores(exact, *plain(p)), dtype)
    found = diagonal.score(p.model, x)
    assert_close(found.log_likelihood, eq.log_likelihood(exact, *plain(p)), dtype)
    assert_close(found.max_component, eq.max_component(exact, *plain(p)), dtype)
    np.testing.assert_array_equal(found.winner, diagonal.component_scores(p.model, x).argmax(1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("components", "features"), [(1, 5), (7, 31), (64, 50), (5, 1100)])
def test_scores_do_not_depend_on_other_rows(width: str, dtype: type, components: int, features: int) -> None:
    rng = np.random.default_rng([components, features])
    p = random_mixture(rng, components, features, dtype)
    x = rng.random((491, features)).astype(dtype)
    found = diagonal.component_scores(p.model, x)
    for rows in (slice(0, 1), slice(400, 409), slice(100, 417)):
        np.testing.assert_array_equal(diagonal.component_scores(p.model, x[rows]), found[rows])


@pytest.mark.parametrize("components", [1, 2, 15, 16, 33])
def test_responsibilities(width: str, components: int) -> None:
    scores = np.random.default_rng(components).normal(-500, 20, (5, components))
    scores[0, 0] = -1e38
    expected = np.exp(scores - scores.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    native.to_responsibilities(scores)
    np.testing.assert_allclose(scores, expected, rtol=1e-14)
    assert scores[0, 0] == (components == 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [2.0, 0.6, 0.01])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
@pytest.mark.parametrize(("components", "features"), SIZES)
def test_one_sgd_step(width: str, dtype: type, sigma: float, batch_size: int, components: int, features: int) -> None:
    rng = np.random.default_rng([components, features, batch_size])
    p = random_mixture(rng, components, features, dtype)
    grid = torus(components)
    x = clear_winner(rng, p, batch_size)
    before = plain(p)
    g = smoothing_matrix(grid, sigma)
    logits, means, scales, loss = eq.sgd_step(x.astype(np.float64), before, g, 0.05, BOUNDS)
    report = sgd_steps(p, x, filters(grid, sigma), 0.05, batch_size=batch_size)
    assert_close(p.logits, logits, dtype)
    assert_close(p.means, means, dtype)
    assert_close(p.scales, scales, dtype)
    assert_close(p.log_dets, np.log(scales).sum(1), dtype)
    assert_close(report.losses, np.array([loss]), dtype)
    assert_close(report.max_components, eq.max_component(x.astype(np.float64), *before).mean(keepdims=True), dtype)
    assert report.wins.sum() == batch_size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("layout", [torus, ring])
def test_fifty_sgd_steps(width: str, dtype: type, batch_size: int, layout: type) -> None:
    rng = np.random.default_rng(5)
    components, features, sigma = 6, 41, 0.5
    p = Mixture(10 * np.eye(components, features, dtype=dtype), np.ones((components, features)), np.zeros(components))
    grid = layout(components)
    g = smoothing_matrix(grid, sigma)
    x = clear_winner(rng, p, 50 * batch_size)
    logits, means, scales = plain(p)
    losses = []
    for batch in x.astype(np.float64).reshape(50, batch_size, features):
        logits, means, scales, loss = eq.sgd_step(batch, (logits, means, scales), g, 0.01, BOUNDS)
        losses.append(loss)
    report = sgd_steps(p, x, filters(grid, sigma), 0.01, batch_size=batch_size)
    assert_close(p.logits, logits, dtype)
    assert_close(p.means, means, dtype)
    assert_close(p.scales, scales, dtype)
    assert_close(report.losses, np.array(losses), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layout_of_samples_does_not_matter(width: str, dtype: type) -> None:
    rng = np.random.default_rng(2)
    start = random_mixture(rng, 4, 37, dtype)
    x = rng.random((12, 37)).astype(dtype)
    wide = np.empty((12, 80), dtype)
    wide[:, 3:40] = x
    every_other = np.empty((12, 74), dtype)
    every_other[:, ::2] = x
    layouts = [x, np.asfortranarray(x), wide[:, 3:40], every_other[:, ::2], x[::-1].copy()[::-1], x.astype(np.float64)]
    expected = None
    for rows in layouts:
        p = start.copy()
        report = sgd_steps(p, rows, filters(torus(4), 0.7), 0.05, batch_size=3)
        result = [*plain(p), report.losses, diagonal.score(p.model, rows).log_likelihood]
        if expected is None:
            expected = result
        for a, b in zip(result, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_no_samples_change_nothing(width: str) -> None:
    p = random_mixture(np.random.default_rng(0), 4, 3)
    before = plain(p)
    report = sgd_steps(p, np.empty((0, 3)), filters(torus(4), 1.0), 0.1)
    assert report.losses.shape == (0,)
    assert diagonal.score(p.model, np.empty((0, 3))).log_likelihood.shape == (0,)
    for a, b in zip(plain(p), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_wrong_arguments_are_refused() -> None:
    p = random_mixture(np.random.default_rng(0), 4, 3)
    with pytest.raises(ValueError, match=r"shape \(2, 5\); expected \(samples, 3\)"):
        diagonal.score(p.model, np.zeros((2, 5)))
    with pytest.raises(ValueError, match="5 samples are not whole batches of 2"):
        sgd_steps(p, np.zeros((5, 3)), filters(torus(4), 1.0), 0.1, batch_size=2)
    with pytest.raises(ValueError, match="one cell for each component"):
        sgd_steps(p, np.zeros((5, 3)), filters(torus(6), 1.0), 0.1)
    with pytest.raises(ValueError, match="no vector width 'mmx'"):
        native.use_width("mmx")
