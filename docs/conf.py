"""Settings of the documentation site (``make docs``). It builds without network: inventories are in the repository."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import streamgmm

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import command_page  # noqa: E402 (found through the path above)

project = "streamgmm"
author = "the streamgmm developers"
copyright = "the streamgmm developers"  # noqa: A001 (Sphinx's name)
version = release = streamgmm.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "templates", "inventories"]
templates_path = ["templates"]
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(sklearn|scipy|river)\..*")]  # bases that newer releases document elsewhere

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

autosummary_generate_overwrite = True
# links that estimators show in a notebook end in api/<estimator>.html
autosummary_filename_map = {f"streamgmm.{name}": name for name in streamgmm.__all__}
autodoc_typehints = "none"  # docstrings name the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # templates/autosummary/class.rst does

intersphinx_mapping = {
    "python": ("https://docs.python.org/3", str(HERE / "inventories" / "python.inv")),
    "numpy": ("https://numpy.org/doc/stable", str(HERE / "inventories" / "numpy.inv")),
    "sklearn": ("https://scikit-learn.org/stable", str(HERE / "inventories" / "sklearn.inv")),
    "scipy": ("https://docs.scipy.org/doc/scipy", str(HERE / "inventories" / "scipy.inv")),
}

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["examples"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery.ExampleOrder",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "reference_url": {"streamgmm": None},
    "backreferences_dir": None,
    "capture_repr": (),
    "image_scrapers": ("gallery.save_figure",),
}

html_theme = "pydata_sphinx_theme"
html_title = "streamgmm"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "start", "math", "results")}  # they have no pages below
toc_object_entries_show_parents = "hide"
html_theme_options = {
    "icon_links": [{"name": "Source", "url": "https://github.com/streamgmm/streamgmm", "icon": "fa-brands fa-github"}],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
}

warnings.filterwarnings("ignore", message=".*annealing has not finished.*")


def setup(app: Any) -> None:
    """Write the page of the command line before Sphinx reads its sources."""
    app.connect("builder-inited", lambda _: command_page.write(HERE / "commands.md"))
