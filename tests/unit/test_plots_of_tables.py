"""Figures of named columns in their own units: tables, explanations, shares of flagged rows, ids on an axis."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm import Mixture, plots
from streamgmm.core.control import Check
from streamgmm.core.explanation import Reason
from streamgmm.core.scaling import Scaling
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from streamgmm.plots.labels import id_ticks, row_name, short_labels, short_numbers
from streamgmm.plots.shares import flagged_shares
from streamgmm.storage import SavedModel
from streamgmm.storage.events import record

NAMES = ["pressure_hPa", "$flow$"]


@pytest.fixture
def mixture() -> Mixture:
    return Mixture.from_parameters([0.3, 0.7], [[1013.0, 0.4], [2110.0, 82.0]], [[0.01, 4.0], [0.0001, 1.0]])


def written(figure: Any) -> tuple[list[str], list[str], list[str]]:
    [ax] = figure.axes
    columns, lines = ([label.get_text() for label in labels] for labels in (ax.get_xticklabels(), ax.get_yticklabels()))
    return columns, lines, [text.get_text() for text in ax.texts]


def test_components_by_descending_weight(mixture: Mixture) -> None:
    assert written(plots.centroids(mixture, names=NAMES)) == (
        NAMES, ["1: 70.0 %", "0: 30.0 %"], ["2,110", "82", "1,013", "0.4"],
    )  # fmt: skip
    assert written(plots.deviations(mixture, names=NAMES))[2] == ["100", "1", "10", "0.5"]
    drawn, components = mixture.sample(3, 5)
    columns, lines, values = written(plots.samples(mixture, 3, seed=5, names=NAMES))
    assert (columns, lines) == (NAMES, [f"from {k}" for k in components])
    np.testing.assert_allclose([float(v.replace(",", "")) for v in values], drawn.ravel(), rtol=0.01, atol=0.6)


def test_what_never_varied_has_no_deviation(mixture: Mixture) -> None:
    constant = Mixture(mixture._parameters, constants=[np.nan, 5.0])
    assert written(plots.deviations(constant, names=NAMES))[2] == ["100", "0", "10", "0"]


def test_names_must_fit(mixture: Mixture) -> None:
    with pytest.raises(ValueError, match="names has 1 entries; expected 2, one for each feature"):
        plots.centroids(mixture, names=["a"])


def test_wide_tables_have_no_numbers() -> None:
    wide = Mixture.from_parameters([1.0], np.zeros((1, 300)), np.ones((1, 300)))
    columns, _, values = written(plots.centroids(wide, names=[f"c{i}" for i in range(300)]))
    assert columns == values == []


def test_explanations_have_the_most_important_feature_on_top() -> None:
    reasons = [Reason("$flow$", 0.9, 87.7, 0.2, -1.6, 2.1), Reason(3, 0.1, 1013.4, 1000.0, 990.0, 1010.0)]
    first, second = plots.explanations({"10:05": reasons, "$x$\x1b": reasons[:1]}).axes
    assert [bar.get_width() for bar in first.patches] == [90.0, 10.0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["$flow$", "feature 3"]
    assert [text.get_text() for text in first.texts] == ["87.7 (usual: -1.6 to 2.1)", "1,013 (usual: 990 to 1,010)"]
    assert first.get_ylim()[0] > first.get_ylim()[1]
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("10:05", "$x$�")
    with pytest.raises(ValueError, match="rows is empty"):
        plots.explanations({})


def test_curves_with_flagged_rows_and_times() -> None:
    check = Check(0, 2.0, 3.0, 0.01, 0.1, 4, False)
    days = [f"2026-01-0{i}T00:00:00" for i in range(1, 6)]
    totals = [{"judged": 100 * i, "flagged": i // 2, "expected_share": 0.01} for i in range(1, 6)]
    events = [
        record("check", check._replace(samples=500 + 100 * i), float(i), row_id=day, **total)
        for i, (day, total) in enumerate(zip(days, totals, strict=True), start=1)
    ]
    _, _, shares = plots.curve(events).axes
    assert [bar.get_x() for bar in shares.patches] == [500, 600, 700, 800, 900]
    np.testing.assert_allclose([bar.get_height() for bar in shares.patches], [0, 1, 0, 1, 0])
    [line] = shares.lines
    assert list(line.get_ydata()) == [1.0, 1.0]
    labels = [label.get_text() for label in shares.get_xticklabels()]
    assert labels == ["Jan 01", "Jan 03", "Jan 05"]  # the fourth has no room
    assert shares.get_xlabel() == "rows, by id or time"
    _, bottom = plots.curve([record("check", check._replace(samples=10), 1.0)]).axes
    assert bottom.get_xlabel() == "samples"


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 500)), max_size=200), st.integers(1, 40))
def test_bars_add_up_to_the_flagged_rows(steps: list[tuple[int, int]], most: int) -> None:
    judged = np.cumsum([rows for rows, _ in steps]).tolist()
    flagged = np.cumsum([min(some, rows) for rows, some in steps]).tolist()
    bars = flagged_shares([1000 + n for n in judged], judged, flagged, most)
    assert len(bars) <= most + 1
    assert all(a.right == b.left for a, b in pairwise(bars))
    assert sum(bar.share * (bar.right - bar.left) for bar in bars) == pytest.approx(flagged[-1] if flagged else 0)


def test_labels_of_an_axis() -> None:
    hours = [f"2026-01-01T{h:02}:00:00" for h in range(24)]
    assert id_ticks(range(24), hours, 3) == {0: "00:00", 11: "11:00", 23: "23:00"}
    assert id_ticks([0, 500, 990, 1000], [None, None, 7, 8]) == {1000: "8"}  # another would overlap it
    assert id_ticks([1, 2], [None, None]) == id_ticks([], []) == {}


def test_labels_are_short_and_distinct() -> None:
    assert short_labels(["2024-01-01", "2026-01-01"]) == ["2024-01-01", "2026-01-01"]
    same = ["2026-01-01T10:00:00.25", "2026-01-01T10:00:00.50"]
    assert short_labels(same) == ["2026-01-01T10…"] * 2
    assert short_labels(["2026-01-01T10:00Z", "2026-01-01T10:00"])[0] == "2026-01-01T10…"  # not comparable
    assert row_name("TEST-T", 3) == "TEST-T"
    assert row_name(0, 3) == "0"


def test_the_mixture_of_a_scaled_run_is_in_the_units_of_the_source() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal([1000.0, 0.02], [50.0, 0.001], (500, 2))
    scaling = Scaling.learn("standard", rows)
    trainer = Trainer(Settings(4, scale="none"), 2, np.dtype(np.float64), engine=Serial(), seed=0)
    scaled = scaling.apply(rows, np.dtype(np.float64))
    trainer.feed(scaled)
    trainer.flush()
    mixture = SavedModel(trainer, scaling=scaling).mixture
    np.testing.assert_allclose(mixture.means, scaling.invert(trainer.mixture.means))
    volume = np.log(scaling.factor).sum()
    np.testing.assert_allclose(mixture.log_prob(rows), trainer.mixture.log_prob(scaled) + volume)


def test_directions_of_columns() -> None:
    covariances = np.array([[[4.0, 2e-3], [2e-3, 4e-6]]])  # a correlation of 0.5
    tilted = Mixture.from_parameters([1.0], [[1013.0, 0.4]], np.linalg.inv(covariances), "full")
    columns, lines, values = written(plots.directions(tilted, names=NAMES))
    assert (columns, lines) == (NAMES, ["0, direction 1", "0, direction 2"])
    assert [abs(float(value)) for value in values] == [0.87, 0.87, 0.5, 0.5]


class FromTable:
    """A fitted estimator that knows the names of its columns."""

    def __init__(self, mixture: Mixture, names: list[str]) -> None:
        self.mixture_, self.feature_names_in_ = mixture, np.array(names, dtype=object)


class TestNamesOfColumns:
    def test_an_estimator_brings_them(self, mixture: Mixture) -> None:
        model = FromTable(mixture, NAMES)
        assert written(plots.centroids(model)) == written(plots.centroids(mixture, names=NAMES))
        assert written(plots.deviations(model)) == written(plots.deviations(mixture, names=NAMES))
        assert written(plots.samples(model, 3)) == written(plots.samples(mixture, 3, names=NAMES))
        assert [ax.get_ylabel() for ax in plots.density(model).axes] == ["$flow$", "density"]

    def test_a_shape_or_names_of_pixels_draw_panels(self, mixture: Mixture) -> None:
        assert len(plots.centroids(FromTable(mixture, NAMES), shape=(2,)).axes) == 2
        pixels = Mixture.from_parameters([0.5, 0.5], np.zeros((2, 64)), np.ones((2, 64)))
        assert len(plots.centroids(FromTable(pixels, [f"pixel{i}" for i in range(64)])).axes) == 2

    def test_a_density_has_those_of_its_features(self) -> None:
        three = Mixture.from_parameters([1.0], np.zeros((1, 3)), np.ones((1, 3)))
        for names in (["a", "b", "c"], ["a", "c"]):
            ax = plots.density(three, 0, 2, names=names).axes[0]
            assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "c")
        with pytest.raises(ValueError, match="names has 4 entries; expected 3, or 2 for the axes"):
            plots.density(three, 0, 2, names=list("abcd"))

    def test_samples_need_as_many(self, mixture: Mixture) -> None:
        with pytest.raises(ValueError, match="names has 1 entries; expected 2"):
            plots.samples(mixture, 3, names=["a"])


def test_explanations_of_rows_without_names(mixture: Mixture) -> None:
    figure = plots.explanations(mixture.explain([[1013.0, 0.4], [2110.0, 82.0]]))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["row 0", "row 1"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((91.4, 47.5, 52.6), ["91.4", "47.5", "52.6"]),
        ((50.08, 49.98, 50.02), ["50.08", "49.98", "50.02"]),
        ((101325.4, 101325.1, 101325.2), ["101,325.4", "101,325.1", "101,325.2"]),
        ((1.3e6, 1.1e6, 1.2e6), ["1.3e6", "1.1e6", "1.2e6"]),
        ((2.0, 2.0, 3.0), ["2", "2", "3"]),
        ((float("nan"), 1.0001, 1.0002), ["–", "1.0001", "1.0002"]),
    ],
)
def test_a_value_can_be_told_from_its_usual_range(values: tuple[float, ...], texts: list[str]) -> None:
    assert short_numbers(values) == texts
    text = written(plots.explanations([[Reason("f", 0.5, values[0], 0.0, values[1], values[2])]]))[2]
    assert text == [f"{texts[0]} (usual: {texts[1]} to {texts[2]})"]
