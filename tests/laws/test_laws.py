"""What must hold for any parameters and any data."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from streamgmm.core import reference as eq
from streamgmm.core.covariance import Bounds, Diagonal, Work
from streamgmm.core.grid import Grid, filters, smoothing_matrix
from streamgmm.core.mixture import Mixture
from streamgmm.core.parameters import Parameters
from streamgmm.native import Samples, SGDStep, Steps
from tests.conftest import random_parameters

BOUNDS = Bounds(1e-3, 20**0.5)
seeds = st.integers(0, 2**32 - 1)
grids = st.builds(Grid, st.integers(1, 4), st.integers(1, 5))
sigmas = st.floats(0.01, 4.0)


def train(p: Parameters, x: np.ndarray, grid: Grid, sigma: float, rate: float = 0.05, batch_size: int = 1) -> Steps:
    return p.kind.sgd_steps(p, Work(Samples(x, batch_size), filters(grid, sigma), BOUNDS), SGDStep(rate, BOUNDS))


@given(seed=seeds, grid=grids, sigma=sigmas, down=st.integers(0, 3), right=st.integers(0, 4), mirror=st.booleans())
def test_the_torus_has_no_preferred_place(
    seed: int, grid: Grid, sigma: float, down: int, right: int, mirror: bool
) -> None:
    rng = np.random.default_rng(seed)
    p = random_parameters(rng, grid.size, 6)
    x = rng.random((10, 6))
    cells = np.arange(grid.size).reshape(grid.rows, grid.columns)
    moved_cells = np.roll(cells, (down, right), (0, 1))
    order = (moved_cells[:, ::-1] if mirror else moved_cells).ravel()
    moved = Parameters(p.kind, {"means": p.means[order], "scales": p["scales"][order]}, p.logits[order])
    h = np.sort(p.kind.component_scores(p, x) @ smoothing_matrix(grid, sigma).T, axis=1)
    assume(grid.size == 1 or (h[:, -1] - h[:, -2]).min() > 1e-6)  # no ties
    here, there = train(p, x, grid, sigma), train(moved, x, grid, sigma)
    np.testing.assert_array_equal(here.wins[order], there.wins)
    np.testing.assert_allclose(moved.means, p.means[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moved["scales"], p["scales"][order], rtol=1e-9)
    np.testing.assert_allclose(moved.logits, p.logits[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(here.losses, there.losses, rtol=1e-9)


@given(seed=seeds, components=st.integers(1, 20), features=st.integers(1, 40), scale=st.floats(0.01, 100))
def test_the_maximum_bounds_the_likelihood(seed: int, components: int, features: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    mixture = Mixture(random_parameters(rng, components, features))
    x = scale * rng.normal(size=(5, features))
    exact, top = mixture.log_prob(x), mixture.max_component(x)
    slack = 1e-9 * (1 + np.abs(exact))
    assert (top <= exact + slack).all()
    assert (exact <= top + np.log(components) + slack).all()


@given(
    seed=seeds,
    grid=grids,
    sigma=sigmas,
    scale=st.sampled_from([1e-6, 1.0, 50.0, 1e6, 1e30]),
    batch_size=st.sampled_from([1, 4]),
    dtype=st.sampled_from([np.float32, np.float64]),
    rate=st.floats(1e-4, 10.0),
)
def test_constraints_hold_after_any_step(
    seed: int, grid: Grid, sigma: float, scale: float, batch_size: int, dtype: type, rate: float
) -> None:
    rng = np.random.default_rng(seed)
    p = random_parameters(rng, grid.size, 7, dtype)
    x = (scale * rng.normal(size=(20, 7))).astype(dtype)
    report = train(p, x, grid, sigma, rate, batch_size)
    mixture = Mixture(p)
    assert np.isfinite(p.means).all()
    assert np.isfinite(report.losses).all()
    assert abs(mixture.weights.sum() - 1) < 1e-6
    assert (p["scales"] >= dtype(BOUNDS[0])).all()
    assert (p["scales"] <= dtype(BOUNDS[1])).all()
    assert np.isfinite(mixture.log_prob(x)).all()
    assert (np.abs(p.means) <= max(1.0, float(np.abs(x).max())) * (1 + 1e-6)).all()  # no mean overshoots its samples


@given(seed=seeds, grid=grids, sigmas=st.tuples(sigmas, sigmas))
def test_shrinking_sigma_raises_the_objective(seed: int, grid: Grid, sigmas: tuple[float, float]) -> None:
    """The paper's proposition, on the grid: for scores that fall with the distance from the winner."""
    rng = np.random.default_rng(seed)
    rows, columns = np.divmod(np.arange(grid.size), grid.columns)
    down, right = np.minimum(rows, grid.rows - rows), np.minimum(columns, grid.columns - columns)
    ring = down**2 + right**2
    falling = -np.sort(rng.exponential(size=ring.max() + 1)).cumsum()
    scores = falling[ring][None]
    narrow, wide = min(sigmas), max(sigmas)
    high, winner = eq.smoothed(scores, smoothing_matrix(grid, narrow))
    low, _ = eq.smoothed(scores, smoothing_matrix(grid, wide))
    assert winner[0] == 0
    assert high[0] >= low[0] - 1e-12
    assert high[0] <= scores.max() + 1e-12


@given(seed=seeds, dtype=st.sampled_from([np.float32, np.float64]), spread=st.floats(0, 6))
def test_log_determinants_need_no_logarithms(seed: int, dtype: type, spread: float) -> None:
    scales = np.exp(np.random.default_rng(seed).normal(0, spread, (3, 5000))).clip(1e-6, 1e6).astype(dtype)
    p = Parameters(Diagonal(), {"means": np.zeros((3, 5000), dtype), "scales": scales}, np.zeros(3))
    np.testing.assert_allclose(p.log_dets, np.log(scales.astype(np.float64)).sum(1), rtol=1e-7, atol=1e-3)
