"""The paper's own details, as settings of the rules that they belong to."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from streamgmm import SGD, StochasticEM, StreamingGaussianMixture


def clusters(rows: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = rng.random((6, 10))
    return centres[rng.integers(6, size=rows)] + 0.05 * rng.standard_normal((rows, 10))


def test_the_papers_control_reaches_from_the_estimator() -> None:
    schedule = StreamingGaussianMixture.paper(SGD(baseline="first")).partial_fit(clusters(200)).trainer_.schedule
    assert (schedule.baseline, schedule.tol, schedule.drop_below) == ("first", 0.05, 0.0)
    plain = StreamingGaussianMixture(rule=SGD(baseline="first"), scale="none").partial_fit(clusters(200))
    assert plain.trainer_.schedule.tol == 0.05  # the paper's control has a fixed tolerance


def test_sgd_infers_its_tolerance_and_the_preset_keeps_the_papers() -> None:
    x = clusters(200)
    assert StreamingGaussianMixture(rule="sgd", scale="none").partial_fit(x).trainer_.schedule.tol is None
    schedule = StreamingGaussianMixture.paper().partial_fit(x).trainer_.schedule
    assert (schedule.tol, schedule.baseline, schedule.drop_below) == (0.05, "mean", 0.25)


def test_the_papers_control_narrows_in_steps_of_a_tenth() -> None:
    model = StreamingGaussianMixture.paper(n_components=9, rule=SGD(baseline="first"), period=50, random_state=0)
    sigmas = [model.partial_fit(part).sigma_ for part in clusters(6000).reshape(-1, 50, 10)]
    changes = {round(b / a, 6) for a, b in pairwise(sigmas) if b != a and b > 0.01}
    assert changes == {0.9}
    assert sigmas[-1] == 0.01


def test_without_annealing_the_rate_is_the_smallest() -> None:
    model = StreamingGaussianMixture.paper(n_components=4, annealing=False, learning_rate_min=0.02).fit(clusters(500))
    assert model.learning_rate_ == 0.02


PAPERS = StochasticEM(step_init=0.05, step_decay=0.25, step_min=0.001, accumulate=400, accumulation="paper")


def test_rates_run_on_through_the_accumulation() -> None:
    x = clusters(600)
    model = StreamingGaussianMixture.paper(n_components=6, rule=PAPERS, period=100, random_state=0)
    for seen in range(100, 601, 100):
        model.partial_fit(x[seen - 100 : seen])
        assert model.learning_rate_ == pytest.approx(max(0.001, 0.05 * (seen + 1) ** -0.75))


def test_statistics_start_at_zero_and_squares_are_about_the_initial_means() -> None:
    """One component takes every sample, so its statistics are weighted sums that can be written down."""
    x = clusters(400)
    rates = np.maximum(0.001, 0.05 * np.arange(1, 401.0) ** -0.75)
    weights = rates * np.cumprod(np.append(1 - rates[1:], 1)[::-1])[::-1]
    model = StreamingGaussianMixture.paper(n_components=1, rule=PAPERS, period=100, random_state=0)
    initial = model.partial_fit(x[:100]).means_.copy()  # the model is unchanged while it accumulates
    model.partial_fit(x[100:])
    share = weights / weights.sum()
    mean, squares = share @ x, share @ (x - initial[0]) ** 2
    np.testing.assert_allclose(model.means_[0], mean, rtol=1e-6)
    np.testing.assert_allclose(model.covariances_[0], np.maximum(squares, 1 / 20), rtol=1e-6)
    assert squares.max() > 0.1


def test_components_that_receive_little_become_wide() -> None:
    x = clusters(3000)
    means = np.concatenate([np.full((1, 10), 0.5), np.full((1, 10), 8.0)])
    settings = {"means_init": means, "period": 100, "random_state": 0}
    plain = StreamingGaussianMixture.paper(n_components=2, rule=StochasticEM(accumulate=400), **settings).partial_fit(x)
    papers = StreamingGaussianMixture.paper(n_components=2, rule=PAPERS, **settings).partial_fit(x)
    assert plain.precisions_[1].min() == pytest.approx(20)
    assert papers.precisions_[1].max() < 1e-5
    assert papers.precisions_[0].min() > 1


def test_the_papers_stochastic_em_does_not_depend_on_chunks_and_resumes(tmp_path: Path) -> None:
    x = clusters(1500)
    settings = {"rule": PAPERS, "period": 100, "random_state": 0}
    whole = StreamingGaussianMixture.paper(n_components=6, **settings).partial_fit(x)
    parts = StreamingGaussianMixture.paper(n_components=6, **settings)
    for part in np.split(x, [7, 333, 402, 1111]):
        parts.partial_fit(part)
    np.testing.assert_array_equal(parts.means_, whole.means_)
    np.testing.assert_array_equal(parts.precisions_, whole.precisions_)
    begun = StreamingGaussianMixture.paper(n_components=6, **settings).partial_fit(x[:250])
    begun.save(tmp_path / "model.safetensors")
    resumed = StreamingGaussianMixture.load(tmp_path / "model.safetensors").partial_fit(x[250:])
    np.testing.assert_array_equal(resumed.precisions_, whole.precisions_)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(baseline="last"), "baseline is 'last'; expected 'mean' or 'first'"),
        (lambda: StochasticEM(accumulation="sum"), "accumulation is 'sum'; expected 'mean' or 'paper'"),
        (lambda: StochasticEM(accumulation="paper", accumulate=0), "needs samples to accumulate"),
        (lambda: StochasticEM(accumulation="paper", start_from="kmeans"), "start_from='random'"),
        (lambda: StreamingGaussianMixture(rule=PAPERS).fit(clusters(100)), "scale='none', like the paper"),
    ],
)
def test_what_does_not_exist_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
