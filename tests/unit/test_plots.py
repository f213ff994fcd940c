"""Figures: what they draw, and of what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamgmm import (
    DeepStreamingMixture,
    Fold,
    Mixture,
    OnlineMixture,
    StreamingAnomalyDetector,
    StreamingGaussianMixture,
    plots,
)
from streamgmm.core.control import Check
from streamgmm.core.grid import Grid, ring, torus
from streamgmm.paper.published import Value
from streamgmm.storage.events import record


def mixture(features: int, components: int = 6) -> Mixture:
    rng = np.random.default_rng(0)
    weights = np.array([0.3, 0.3, 0.2, 0.1, 0.0995, 0.0005])
    return Mixture.from_parameters(weights, rng.random((components, features)), np.ones((components, features)))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).random((600, 64))


@pytest.fixture(scope="module")
def estimator(rows: np.ndarray) -> StreamingGaussianMixture:
    return StreamingGaussianMixture(6, grid="ring", random_state=0).partial_fit(rows)


@pytest.mark.parametrize("draw", [plots.centroids, plots.deviations])
def test_estimators_are_drawn_on_their_own_grid(
    draw: Callable[..., Any], rows: np.ndarray, estimator: StreamingGaussianMixture
) -> None:
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(6, grid="ring", random_state=0)).partial_fit(rows)
    for model, mixture in ((estimator, estimator.mixture_), (detector, detector.mixture_.mixture_)):
        expected = [ax.images[0].get_array() for ax in draw(mixture, ring(6)).axes]
        figure = draw(model)
        assert "on their 1×6 grid" in figure.get_suptitle()
        for ax, image in zip(figure.axes, expected, strict=True):
            np.testing.assert_array_equal(ax.images[0].get_array(), image)
    assert "on their 2×3 grid" in draw(estimator.mixture_).get_suptitle()
    assert "on their 2×3 grid" in draw(estimator, Grid(2, 3)).get_suptitle()


def test_samples_and_density_of_estimators(estimator: StreamingGaussianMixture) -> None:
    of_estimator, of_mixture = (plots.samples(m, 4, seed=1) for m in (estimator, estimator.mixture_))
    for a, b in zip(of_estimator.axes, of_mixture.axes, strict=True):
        np.testing.assert_array_equal(a.images[0].get_array(), b.images[0].get_array())
    of_estimator, of_mixture = (plots.density(m, 3, 5) for m in (estimator, estimator.mixture_))
    values = [figure.axes[0].collections[0].get_array() for figure in (of_estimator, of_mixture)]
    np.testing.assert_array_equal(*values)


def test_river_estimators_are_drawn() -> None:
    model = OnlineMixture(4, seed=0)
    for row in np.random.default_rng(0).random((50, 3)).tolist():
        model.learn_one(dict(zip("abc", row, strict=True)))
    assert len(plots.centroids(model).axes) == 4


def test_other_models_are_refused() -> None:
    with pytest.raises(TypeError, match="model is a list; expected a Mixture or a fitted estimator"):
        plots.centroids([1.0])
    with pytest.raises(TypeError, match=r"model is a StreamingAnomalyDetector; expected .* fitted"):
        plots.samples(StreamingAnomalyDetector())
    with pytest.raises(AttributeError, match="not fitted yet"):
        plots.density(StreamingGaussianMixture())


def test_grey_means_lie_on_their_grid() -> None:
    m = mixture(64)
    axes = plots.centroids(m, Grid(2, 3)).axes
    assert len(axes) == 6
    for k, ax in enumerate(axes):
        np.testing.assert_array_equal(ax.images[0].get_array(), m.means[k].reshape(8, 8))
        assert ax.get_title() == f"{100 * m.weights[k]:.1f} %"
    assert axes[5].title.get_color() == "tab:red"
    below = axes[3].get_position(), axes[0].get_position()
    assert below[0].y0 < below[1].y0


def test_colour_and_vectors() -> None:
    colour = plots.centroids(mixture(192), Grid(2, 3)).axes[0].images[0].get_array()
    assert colour.shape == (8, 8, 3)
    m = mixture(9)
    line = plots.centroids(m, Grid(2, 3)).axes[2].lines[0]
    np.testing.assert_array_equal(line.get_ydata(), m.means[2])
    given = plots.centroids(mixture(12), Grid(2, 3), shape=(3, 4)).axes[0].images[0].get_array()
    assert given.shape == (3, 4)
    assert not plots.centroids(mixture(64), Grid(2, 3), shape=(64,)).axes[0].images


def test_constant_lines_are_visible() -> None:
    ax = plots.deviations(mixture(5), Grid(2, 3)).axes[0]
    low, high = ax.get_ylim()
    assert low < 1 < high
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), np.ones(5))


@pytest.mark.parametrize(
    "draw", [lambda: plots.centroids(mixture(5), Grid(3, 2)), lambda: plots.samples(mixture(5), 4)]
)
def test_the_title_fits(draw: Callable[[], Any]) -> None:
    figure = draw()
    figure.canvas.draw()
    title = figure.get_suptitle()
    width = figure.findobj(lambda a: getattr(a, "get_text", lambda: "")() == title)[0].get_window_extent().width
    assert width < figure.bbox.width


def test_curves_show_the_events() -> None:
    rows = [
        record("check", Check(1000 * i, 2.0 * i, 3.0 * i, 2.0 / i, 0.1 / i, 4, False), float(i)) for i in range(1, 6)
    ]
    top, bottom = plots.curve(rows, {"other": rows[:2]}).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in (*top.lines, *bottom.lines)}
    assert drawn["max-component"] == [3.0, 6.0, 9.0, 12.0, 15.0]
    assert drawn["other"] == [3.0, 6.0]
    assert drawn["σ"] == [2.0 / i for i in range(1, 6)]
    assert list(top.lines[0].get_xdata()) == [1000, 2000, 3000, 4000, 5000]


def test_marks_are_at_their_events() -> None:
    rows = [record(kind, Check(at, 1.0, 1.0, 1.0, 0.1, 4, False), 1.0) for at, kind in ((500, "check"), (700, "drift"))]
    top, _ = plots.curve(rows).axes
    [mark] = [line for line in top.lines if line.get_label() == "drift"]
    assert list(mark.get_xdata()) == [700, 700]
    assert mark.get_color() == "tab:red"


def test_deviations_are_roots_of_variances() -> None:
    m = Mixture.from_parameters([0.5, 0.5], np.zeros((2, 64)), np.array([np.full(64, 4.0), np.linspace(1, 9, 64)]))
    axes = plots.deviations(m, Grid(1, 2)).axes
    np.testing.assert_allclose(axes[0].images[0].get_array(), 0.5)
    np.testing.assert_allclose(axes[1].images[0].get_array().ravel(), 1 / np.sqrt(np.linspace(1, 9, 64)))


def test_samples_are_those_of_the_mixture() -> None:
    m = mixture(64)
    figure = plots.samples(m, 10, seed=3)
    drawn, components = m.sample(10, 3)
    shown = [ax for ax in figure.axes if ax.images]
    assert len(shown) == 10
    for i, ax in enumerate(shown):
        np.testing.assert_array_equal(ax.images[0].get_array(), drawn[i].reshape(8, 8))
        assert ax.get_title() == f"from {components[i]}"


def test_usage_is_sorted_and_dead_components_are_red() -> None:
    shares = np.array([0.02, 0.5, 0.48])
    [ax] = plots.usage(np.array([0.1, 0.4, 0.5]), shares).axes
    bars = [p for p in ax.patches if p.get_width() < 1]
    np.testing.assert_allclose([b.get_height() for b in bars], [50, 48, 2])
    assert bars[2].get_facecolor() != bars[0].get_facecolor() == bars[1].get_facecolor()
    [points] = [line for line in ax.lines if line.get_label() == "weight"]
    np.testing.assert_allclose(points.get_ydata(), [40, 50, 10])


def test_scores_and_their_threshold() -> None:
    values = np.random.default_rng(0).normal(100, 10, 5000)
    [ax] = plots.scores(values, 77.0).axes
    np.testing.assert_allclose(sum(p.get_height() for p in ax.patches), 100)
    [line] = ax.lines
    assert list(line.get_xdata()) == [77.0, 77.0]
    assert not plots.scores(values).axes[0].lines


def test_a_few_outliers_leave_room_for_usual_scores() -> None:
    values = np.random.default_rng(0).normal(100, 10, 5000)
    values[:20] = -1e4
    [ax] = plots.scores(values, 50.0).axes
    assert sum(p.get_height() > 0 for p in ax.patches) > 20
    np.testing.assert_allclose(sum(p.get_height() for p in ax.patches), 100)
    assert ax.get_xlim()[0] < 50.0


@pytest.mark.parametrize(("features", "chosen"), [(1, (0, 1)), (3, (1, 1)), (3, (-1, 0))])
def test_density_needs_two_features(features: int, chosen: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"features are {chosen[0]} and {chosen[1]}; expected two different ones"):
        plots.density(mixture(features), *chosen)


def test_density_of_two_features() -> None:
    m = Mixture.from_parameters([0.7, 0.3], [[0.0, 9.0, 1.0], [2.0, 9.0, 3.0]], [[4.0, 1.0, 4.0], [16.0, 1.0, 1.0]])
    ax = plots.density(m, 0, 2).axes[0]
    centres = [tuple(p.get_center()) for p in ax.patches]
    assert centres == [(0.0, 1.0), (2.0, 3.0)]
    np.testing.assert_allclose([(p.width, p.height) for p in ax.patches], [(1.0, 1.0), (0.5, 2.0)])
    mesh = ax.collections[0]
    x, y = mesh.get_coordinates()[..., 0], mesh.get_coordinates()[..., 1]
    values = mesh.get_array()
    top = np.unravel_index(values.argmax(), values.shape)
    assert abs(x[top] - 0.0) < 0.1
    assert abs(y[top] - 1.0) < 0.1
    assert values.max() == pytest.approx(0.7 / (2 * np.pi * 0.25), rel=0.05)


def test_trade_offs() -> None:
    [ax] = plots.trade_off({"a": {10.0: (3.0, 2.0), 100.0: (1.0, 4.0)}}).axes
    drawn = {line.get_label(): line.get_ydata().tolist() if hasattr(line.get_ydata(), "tolist") else line.get_ydata()
             for line in ax.lines}  # fmt: skip
    assert drawn == {"new, a": [3.0, 1.0], "all, a": [2.0, 4.0]}


def test_filters_show_the_weights_of_neighbours() -> None:
    figure = plots.filters(torus(16), (2.0, 0.01))
    wide, narrow = (ax.images[0].get_array() for ax in figure.axes)
    np.testing.assert_allclose([wide.sum(), narrow.sum()], 1)
    assert narrow[2, 2] == 1
    assert wide[2, 2] == wide.max() < 0.2


def test_effects_are_differences_from_the_best() -> None:
    lines = {
        "MNIST": {1.0: Value(5.0, 0.1), 10.0: Value(8.0, 0.2)},
        "other": {1.0: Value(3.0, 0.0), 10.0: Value(1.0, 0.0)},
    }
    [ax] = plots.effects(lines, "K").axes
    drawn = [line.get_ydata().tolist() for line in ax.lines if line.get_marker() in ("o", "s")]
    assert drawn == [[-3.0, 0.0], [0.0, -2.0]]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "10"]


def test_layers_are_drawn_in_pixels() -> None:
    upper = StreamingGaussianMixture(4, period=10, scale="none", precision_max=20.0)
    lower = StreamingGaussianMixture(6, period=10, grid="ring")
    model = DeepStreamingMixture([Fold(4, 2), lower, Fold(), upper], (8, 8), random_state=0)
    model.partial_fit(np.random.default_rng(0).random((500, 64)))
    figure = plots.prototypes(model, 0)
    assert "6 prototypes on their 1×6 grid" in figure.get_suptitle()
    np.testing.assert_allclose(figure.axes[2].images[0].get_array(), model.mixture(0).means[2].reshape(4, 4))
    assert [ax.images[0].get_array().shape for ax in plots.prototypes(model).axes] == [(8, 8)] * 4


def test_images_side_by_side() -> None:
    x = np.random.default_rng(0).random((3, 64))
    hidden = np.where(x > 0.5, np.nan, x)
    figure = plots.images({"image": x, "hidden": hidden})
    assert [ax.get_ylabel() for ax in figure.axes] == ["image", "", "", "hidden", "", ""]
    np.testing.assert_array_equal(figure.axes[4].images[0].get_array().filled(np.nan), hidden[1].reshape(8, 8))
