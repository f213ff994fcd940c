"""How the examples become a gallery: their order, and the pictures they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

ORDER = (
    "sensor_log",
    "letters",
    "drift",
    "conditional_prediction",
    "inpainting",
    "choosing_components",
    "pipeline",
    "online_river",
    "comparison",
    "own_rule",
    "own_source",
    "layers",
)


class ExampleOrder:
    """Sort key of examples: simple ones first.

    Parameters
    ----------
    folder : str
        The folder of the examples, which Sphinx-Gallery gives and which is not needed.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> int:
        """Return the place of an example, by the name of its file."""
        return ORDER.index(Path(name).stem)


def save_figure(block: tuple[Any, ...], variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save the ``figure`` that a block of an example drew, and return how to show it.

    Our plots leave matplotlib's global state alone, so Sphinx-Gallery's own scraper does not see them.

    Parameters
    ----------
    block : tuple
        The block of code; not needed.
    variables : dict
        What Sphinx-Gallery knows about the example.
    settings : dict
        Settings of the gallery.
    """
    names = variables["example_globals"]
    figure = names.pop("figure", None)
    plt.close("all")
    if not isinstance(figure, Figure):
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=110)
    return str(figure_rst([path], settings["src_dir"]))
