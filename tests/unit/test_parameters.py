"""Parameters and tensors: shapes, views, copies and selections."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core.covariance import Diagonal
from streamgmm.core.parameters import Parameters, logits_of
from streamgmm.core.tensors import Layout, Tensors
from tests.conftest import random_parameters


def parameters(means: tuple[int, ...], scales: tuple[int, ...], logits: int) -> Parameters:
    return Parameters(Diagonal(), {"means": np.zeros(means), "scales": np.ones(scales)}, np.zeros(logits))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"means have shape \(0, 3\); expected \(components, features\)"):
        parameters((0, 3), (0, 3), 0)
    with pytest.raises(ValueError, match=r"tensor 'scales' has shape \(3, 2\); expected \(components, 3\)"):
        parameters((2, 3), (3, 2), 2)
    with pytest.raises(ValueError, match=r"logits \(3,\); expected 2 each"):
        parameters((2, 3), (2, 3), 3)
    with pytest.raises(ValueError, match="expected 2 each"):
        parameters((2, 3), (1, 3), 2)


def test_views_write_to_what_the_kernel_reads() -> None:
    p = random_parameters(np.random.default_rng(0), 4, 5, np.float32)
    p.means[2] = 7
    assert (p.buffers["means"][2, :5] == 7).all()
    assert (p.buffers["means"][:, 5:] == 0).all()
    p["scales"][:] = 2
    p.refresh()
    np.testing.assert_allclose(p.log_dets, 5 * np.log(2), rtol=1e-6)


def test_copies_are_independent_and_assignments_complete() -> None:
    p = random_parameters(np.random.default_rng(0), 4, 5)
    twin = p.copy()
    p.means[:] = 0
    assert twin.means.any()
    p.assign(twin)
    for name, value in twin.tensors.named().items():
        np.testing.assert_array_equal(p[name], value)
    np.testing.assert_array_equal(p.kind.component_scores(p, p.means), twin.kind.component_scores(twin, p.means))


def test_a_selection_shares_weights_between_copies() -> None:
    p = random_parameters(np.random.default_rng(0), 4, 5)
    chosen = p.select(np.array([3, 0, 0]))
    np.testing.assert_array_equal(chosen.means, p.means[[3, 0, 0]])
    np.testing.assert_array_equal(chosen["scales"], p["scales"][[3, 0, 0]])
    weights = p.weights[[3, 0, 0]] / [1, 2, 2]
    np.testing.assert_allclose(chosen.weights, weights / weights.sum(), rtol=1e-12)


def test_tensors_need_not_be_rows() -> None:
    layout = {"means": Layout((2,), 0.0), "scale": Layout(()), "factors": Layout((2, 3))}
    values = {"means": np.ones((4, 2)), "scale": np.arange(4.0), "factors": np.ones((4, 2, 3))}
    tensors = Tensors(layout, values, np.dtype(np.float64))
    assert len(tensors) == 4
    assert tensors["scale"].shape == (4,)
    assert tensors["factors"].shape == (4, 2, 3)
    tensors.copy_component(3, 0)
    assert tensors.select(np.array([0, 1]))["scale"].tolist() == [3, 1]
    assert tensors.copy()["scale"].tolist() == [3, 1, 2, 3]


def test_weights_of_zero_stay_finite() -> None:
    assert np.isfinite(logits_of([0.0, 1.0])).all()
    with pytest.raises(ValueError, match=r"sum to 1\.2; expected .* Divide them by their sum"):
        logits_of([0.6, 0.6])
