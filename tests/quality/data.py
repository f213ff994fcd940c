"""Real data for quality tests: the packed files of $STREAMGMM_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from streamgmm import datasets


def available(name: str) -> str:
    """The name itself, or a skip with the reason."""
    folder = os.environ.get("STREAMGMM_DATA")
    if not folder:
        pytest.skip("STREAMGMM_DATA does not name a folder with the data sets")
    if not (Path(folder) / datasets.FILES[name]).is_file():
        pytest.skip(f"{datasets.FILES[name]} is not in STREAMGMM_DATA")
    return name


def images(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Train and test images as float32 rows in [0, 1]."""
    data = datasets.load(available(name))
    return datasets.scaled(data.x_train), datasets.scaled(data.x_test)
