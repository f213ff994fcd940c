"""Native structs check their arrays once and keep them alive."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from streamgmm.native import EMStep, Filters, Samples, SGDStep, Steps, _native, diagonal, padded
from tests.kernels import BOUNDS, Mixture, random_mixture

IDENTITY = Filters(np.eye(1), np.eye(4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_tells_its_size(dtype: type) -> None:
    model = random_mixture(np.random.default_rng(0), 4, 3, dtype).model
    assert (model.components, model.n_features, model.dtype) == (4, 3, np.dtype(dtype))
    for name in ("components", "n_features", "dtype"):
        with pytest.raises(AttributeError):
            setattr(model, name, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_keeps_its_arrays_alive(dtype: type) -> None:
    rng = np.random.default_rng(0)
    p = random_mixture(rng, 4, 300, dtype)
    x = rng.random((20, 300)).astype(dtype)
    expected = diagonal.component_scores(p.copy().model, x)
    model, buffer = p.model, p.means_buffer
    held = sys.getrefcount(buffer)
    del p
    gc.collect()
    litter = [padded(rng.random((4, 300)), np.dtype(dtype), 0) for _ in range(50)]  # would reuse freed memory
    np.testing.assert_array_equal(diagonal.component_scores(model, x), expected)
    del model, litter
    assert sys.getrefcount(buffer) < held  # and lets go of them with its own end


def test_arrays_that_do_not_fit_are_refused() -> None:
    dtype = np.dtype(np.float64)
    means, k = padded(np.zeros((4, 3)), dtype, 0), np.zeros(4)
    with pytest.raises(ValueError, match="padded to whole packs"):
        diagonal.model(np.zeros((4, 3)), np.zeros((4, 3)), k, k.copy(), 3)
    with pytest.raises(ValueError, match="means and scales differ in shape"):
        diagonal.model(means, means[:3], k, k.copy(), 3)
    with pytest.raises(ValueError, match="one entry per component"):
        diagonal.model(means, means.copy(), k, np.zeros(3), 3)
    with pytest.raises(ValueError, match="at least one component and one feature"):
        diagonal.model(means, means.copy(), k, k.copy(), 0)
    with pytest.raises(TypeError):  # never a silent copy, whose changes would be lost
        diagonal.model(means, means.astype(np.float32), k, k.copy(), 3)
    with pytest.raises(TypeError):
        diagonal.model(means, means.copy(), np.zeros(4, np.float32), k, 3)


def test_samples_and_moments_that_do_not_fit_are_refused() -> None:
    p = Mixture(np.zeros((4, 3)), np.ones((4, 3)), np.zeros(4))
    step, x = SGDStep(0.1, BOUNDS), np.zeros((6, 3))
    with pytest.raises(ValueError, match="one entry per sample"):
        diagonal.sgd_steps(p.model, Samples(x, shares=np.ones(5)), IDENTITY, step)
    with pytest.raises(ValueError, match="typical_loss must have five entries"):
        diagonal.sgd_steps(p.model, Samples(x, typical_loss=np.zeros(2)), IDENTITY, step)
    with pytest.raises(ValueError, match="the filters must be square"):
        diagonal.sgd_steps(p.model, Samples(x), Filters(np.eye(1), np.ones((4, 3))), step)
    em = EMStep(0.1, 0.5, 0.1, 0, BOUNDS)
    other = Mixture(np.zeros((5, 3)), np.ones((5, 3)), np.zeros(5))
    with pytest.raises(ValueError, match="shape of the model's means"):
        diagonal.em_steps(p.model, other.moments(other.variances(), np.ones(5)), Samples(x), em)
    with pytest.raises(ValueError, match="masses must have one entry per component"):
        diagonal.em_steps(p.model, p.moments(p.variances(), np.ones(5)), Samples(x), em)
    with pytest.raises(ValueError, match="out of range"):
        diagonal.refresh_log_dets(p.model, range(2, 5))
    with pytest.raises(ValueError, match="out of range"):
        diagonal.rescale(p.model, p.moments(p.variances(), np.ones(4)), BOUNDS, range(2, 5))


def test_reports_that_do_not_fit_are_refused() -> None:
    p = Mixture(np.zeros((4, 3)), np.ones((4, 3)), np.zeros(4))
    samples = _native.Samples64(np.zeros((6, 3)), 1.0, 1, False, None, None)
    step = _native.SGDStep(0.1, *BOUNDS, False)

    def report(steps: int, components: int) -> _native.Report:
        counts = np.zeros(components, np.int64)
        return _native.Report(
            *Steps(np.zeros(steps), np.zeros(steps), counts, np.zeros(components), np.zeros(1, np.int64)), None
        )

    with pytest.raises(ValueError, match="one entry per step"):
        p.model.sgd_steps(samples, _native.Filter(*IDENTITY), step, report(5, 4))
    with pytest.raises(ValueError, match="one entry per component"):
        p.model.sgd_steps(samples, _native.Filter(*IDENTITY), step, report(6, 3))
    p.model.sgd_steps(samples, _native.Filter(*IDENTITY), step, report(6, 4))


def test_pairs_that_do_not_fit_are_refused() -> None:
    def pair(components: int) -> diagonal.Pair:
        return diagonal.Pair(*(padded(np.ones((components, 3)), np.dtype(np.float64), 0) for _ in range(2)))

    with pytest.raises(ValueError, match="at least one replica"):
        diagonal.merge_rows(pair(4), pair(4), [], np.ones((4, 0)), range(4))
    with pytest.raises(ValueError, match="a replica differs in shape"):
        diagonal.merge_rows(pair(4), pair(4), [pair(4), pair(5)], np.ones((4, 2)), range(4))
    with pytest.raises(ValueError, match=r"\(components, replicas\)"):
        diagonal.merge_rows(pair(4), pair(4), [pair(4)], np.ones((4, 2)), range(4))
