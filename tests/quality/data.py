"""Real data for quality tests: the packed files of $STREAMGMM_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


def images(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Train and test images as float32 rows in [0, 1], or a skip with the reason."""
    folder = os.environ.get("STREAMGMM_DATA")
    if not folder:
        pytest.skip("STREAMGMM_DATA does not name a folder with the data sets")
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{name}.npz is not in STREAMGMM_DATA")
    with np.load(path) as packed:
        train, test = packed["x_train"], packed["x_test"]
    return tuple(a.reshape(len(a), -1).astype(np.float32) / 255 for a in (train, test))
