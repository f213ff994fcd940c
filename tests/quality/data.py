"""Real data for quality tests: the packed files of $STREAMGMM_DATA."""

from __future__ import annotations

import os

import numpy as np
import pytest

from streamgmm import datasets


def available(name: str) -> str:
    """The name itself, or a skip with the reason."""
    if any((folder / datasets.FILES[name]).is_file() for folder in datasets.folders()):
        return name
    without = pytest.fail if os.environ.get("CI") else pytest.skip
    return without(f"{datasets.FILES[name]} is not in the folder that STREAMGMM_DATA names, nor in the cache")


def images(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Train and test images as float32 rows in [0, 1]."""
    data = datasets.load(available(name))
    return datasets.scaled(data.x_train), datasets.scaled(data.x_test)
