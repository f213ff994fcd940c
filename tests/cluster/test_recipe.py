"""The recipe for plain processes in docs/scale.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.mark.source
def test_the_recipe_for_processes_runs(tmp_path: Path) -> None:
    found = re.search(r"### Plain processes\n\n```python\n(.*?)```", PAGE.read_text(encoding="utf8"), re.DOTALL)
    assert found is not None
    script = tmp_path / "recipe.py"
    script.write_text(found[1], encoding="utf8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    samples, score = done.stdout.split()
    assert int(samples) == 60_000
    assert float(score) > -13.0  # one Gaussian for all rows reaches -15.2
