"""Examples of the gallery: each runs, and finds what it says."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from streamgmm.core.rules import RULES
from tests.docs.pages import ROOT

pytestmark = pytest.mark.source
Names = dict[str, Any]
CHECKS: dict[str, Callable[[Names], bool]] = {
    "choosing_components": lambda n: n["best"] == 5 and n["curves"][5][-1] > n["curves"][1][-1],
    "comparison": lambda n: n["best"] - n["scores"][-1] < 0.02,
    "conditional_prediction": lambda n: 0.85 < n["inside"] < 0.95,
    "drift": lambda n: n["curves"]["half-life of 1000 samples"][-1] > n["curves"]["forgets nothing"][-1],
    "inpainting": lambda n: n["error"] < 0.7 * n["empty"],
    "layers": lambda n: n["accuracy"] > n["pixels"].score(n["images"], n["labels"]),
    "letters": lambda n: (n["shares"] > 0.1 / 36).sum() >= 34,
    "online_river": lambda n: n["quality"].get() > 0.95 and n["warm"] != n["cold"],
    "own_rule": lambda n: n["model"].score(n["x"]) > 1.8,
    "own_source": lambda n: n["model"].n_samples_seen_ == 5000,
    "pipeline": lambda n: n["accuracy"] > 0.95,
    "sensor_log": lambda n: set(range(5)) <= set(n["flagged"]) and n["reasons"][0][0].feature == 0,
}


@pytest.fixture(autouse=True)
def no_traces() -> Iterator[None]:
    """Examples draw without a window, and leave neither a figure nor a rule behind."""
    pytest.importorskip("matplotlib").use("agg")
    before = dict(RULES)
    yield
    RULES.clear()
    RULES.update(before)
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")


@pytest.mark.parametrize("name", CHECKS)
def test_an_example(name: str) -> None:
    if name == "online_river":
        pytest.importorskip("river")
    assert np.all(CHECKS[name](runpy.run_path(str(ROOT / "examples" / f"{name}.py"))))


def test_all_are_checked() -> None:
    assert sorted(CHECKS) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
