"""What the pictures draw."""

from __future__ import annotations

import numpy as np

from streamgmm import Mixture, plots
from streamgmm.events import record
from streamgmm.grid import Grid, torus
from streamgmm.paper.published import Value
from streamgmm.training import Check


def mixture(features: int, components: int = 6) -> Mixture:
    rng = np.random.default_rng(0)
    weights = np.array([0.3, 0.3, 0.2, 0.1, 0.0995, 0.0005])
    return Mixture.from_parameters(weights, rng.random((components, features)), np.ones((components, features)))


def test_gray_means_lie_on_their_grid() -> None:
    m = mixture(16)
    axes = plots.centroids(m, Grid(2, 3)).axes
    assert len(axes) == 6
    for k, ax in enumerate(axes):
        np.testing.assert_array_equal(ax.images[0].get_array(), m.means[k].reshape(4, 4))
        assert ax.get_title() == f"{100 * m.weights[k]:.1f} %"
    assert axes[5].title.get_color() == "tab:red"
    below = axes[3].get_position(), axes[0].get_position()
    assert below[0].y0 < below[1].y0


def test_colour_and_vectors() -> None:
    colour = plots.centroids(mixture(12), Grid(2, 3)).axes[0].images[0].get_array()
    assert colour.shape == (2, 2, 3)
    m = mixture(7)
    line = plots.centroids(m, Grid(2, 3)).axes[2].lines[0]
    np.testing.assert_array_equal(line.get_ydata(), m.means[2])
    given = plots.centroids(mixture(12), Grid(2, 3), shape=(3, 4)).axes[0].images[0].get_array()
    assert given.shape == (3, 4)


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
