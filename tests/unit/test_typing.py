"""What a type checker of a user sees."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
import numpy as np
from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture

x = np.zeros((10, 2))
reveal_type(StreamingGaussianMixture().fit(x))
reveal_type(StreamingGaussianMixture().partial_fit(x))
reveal_type(StreamingGaussianMixture.load("model"))
reveal_type(StreamingAnomalyDetector().fit(x))
reveal_type(StreamingAnomalyDetector().partial_fit(x))
reveal_type(StreamingAnomalyDetector.load("model"))
"""


@pytest.mark.source
def test_methods_keep_the_type_of_their_estimator(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(CODE)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "use.py")]
    there = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=there)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [name.split(".")[-1] for name in re.findall(r'Revealed type is "(.*)"', done.stdout)]
    assert found == ["StreamingGaussianMixture"] * 3 + ["StreamingAnomalyDetector"] * 3
