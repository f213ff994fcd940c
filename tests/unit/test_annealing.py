from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core import annealing
from streamgmm.core import reference as eq
from streamgmm.core.annealing import Annealing, Schedule


def run(schedule: Schedule, losses: list[float], batch_size: int = 1) -> Annealing:
    state = annealing.start(schedule)
    return annealing.observe(schedule, state, losses, losses, batch_size)


def test_papers_form_smooths_from_the_first_loss() -> None:
    schedule = Schedule(2.0, period=10, baseline="first")
    state = run(schedule, [-100.0, 3.0, 5.0])
    expected = eq.smoothed_loss(eq.smoothed_loss(-100.0, 3.0, 0.1), 5.0, 0.1)
    assert state.loss == pytest.approx(expected)
    assert state.baseline == -100.0


def test_robust_form_is_a_mean_until_one_period_is_full() -> None:
    losses = np.random.default_rng(0).normal(size=100).tolist()
    state = run(Schedule(2.0, period=100), losses)
    assert state.loss == pytest.approx(np.mean(losses))
    assert state.baseline == pytest.approx(np.mean(losses[:10]))


def test_batches_count_samples() -> None:
    state = run(Schedule(2.0, period=100, baseline="first"), [0.0, 1.0], batch_size=25)
    assert state.samples == 50
    assert state.loss == 0.25
    assert run(Schedule(2.0, period=10, baseline="first"), [0.0, 1.0], batch_size=25).loss == 1.0


@pytest.mark.parametrize(
    ("loss", "shrinks"), [(100.0, True), (104.9, True), (105.1, False), (90.1, True), (89.9, False), (-400.0, False)]
)
def test_sigma_shrinks_only_when_the_loss_stands_still(loss: float, shrinks: bool) -> None:
    schedule = Schedule(2.0)
    state = Annealing(sigma=2.0, samples=2000, loss=loss, max_component=loss, baseline=0.0, last=100.0)
    after, shrunk = annealing.check(schedule, state)
    assert -0.1 < eq.relative_gain(loss, 100.0, 0.0) < 0.05 or not shrinks
    assert shrunk == shrinks
    assert after.sigma == (1.8 if shrinks else 2.0)
    assert after.last == loss


@pytest.mark.parametrize(("loss", "shrinks"), [(104.9, True), (105.1, False), (89.9, True), (-400.0, True)])
def test_the_papers_control_has_no_lower_bound(loss: float, shrinks: bool) -> None:
    state = Annealing(sigma=2.0, samples=2000, loss=loss, max_component=loss, baseline=0.0, last=100.0)
    assert annealing.check(Schedule(2.0, baseline="first"), state)[1] == shrinks


def test_first_check_only_stores() -> None:
    schedule = Schedule(2.0, period=10)
    after, shrunk = annealing.check(schedule, run(schedule, [1.0] * 10))
    assert (after.last, after.sigma, shrunk) == (1.0, 2.0, False)


def test_a_loss_that_never_moves_is_stationary() -> None:
    for baseline in ("mean", "first"):
        schedule = Schedule(2.0, period=10, baseline=baseline)
        state, _ = annealing.check(schedule, run(schedule, [1.0] * 10))
        state, shrunk = annealing.check(schedule, annealing.observe(schedule, state, [1.0] * 10, [1.0] * 10, 1))
        assert shrunk
        assert state.sigma == 1.8


def test_sigma_never_passes_its_minimum() -> None:
    schedule = Schedule(0.0105, sigma_min=0.01)
    state = Annealing(sigma=0.0105, samples=1, loss=5.0, max_component=5.0, baseline=0.0, last=5.0)
    assert annealing.check(schedule, state)[0].sigma == 0.01
    assert annealing.start(Schedule(0.001, sigma_min=0.01)).sigma == 0.01


def test_no_single_sample_decides_the_schedule() -> None:
    rng = np.random.default_rng(1)
    losses = 200 * (1 - np.exp(-np.arange(20_000) / 3000)) + rng.normal(0, 30, 20_000)
    losses[0] = -1347.0

    def schedule_of(order: np.ndarray, baseline: str) -> list[float]:
        schedule = Schedule(2.0, period=1000, baseline=baseline)
        state, sigmas = annealing.start(schedule), []
        stream = losses.copy()
        stream[:100] = losses[order]
        for part in stream.reshape(-1, 1000):
            state = annealing.observe(schedule, state, part.tolist(), part.tolist(), 1)
            state, _ = annealing.check(schedule, state)
            sigmas.append(state.sigma)
        return sigmas

    orders = [np.arange(100)] + [rng.permutation(100) for _ in range(5)]
    assert all(schedule_of(o, "mean") == schedule_of(orders[0], "mean") for o in orders)
    assert any(schedule_of(o, "first") != schedule_of(orders[0], "first") for o in orders)


@pytest.mark.parametrize(
    ("loss", "variance", "shrinks"),
    [(104.9, 0.0, True), (105.1, 0.0, False), (105.1, 5000.0, True), (108.0, 5000.0, False), (89.9, 0.0, False)],
)
def test_without_tol_noise_widens_the_threshold(loss: float, variance: float, shrinks: bool) -> None:
    """Variance 5000 over a period of 1000: standard error 1.78, threshold 7.1 in place of 5."""
    state = Annealing(2.0, 2000, loss, loss, baseline=0.0, last=100.0, variance=variance)
    assert annealing.check(Schedule(2.0, tol=None), state)[1] == shrinks


def test_variance_is_that_of_single_samples() -> None:
    rng = np.random.default_rng(0)
    for batch_size in (1, 10):
        losses = rng.normal(5, 3, (20_000 // batch_size, batch_size)).mean(1).tolist()
        state = run(Schedule(2.0, period=2000), losses, batch_size)
        assert state.variance == pytest.approx(9, rel=0.15)
