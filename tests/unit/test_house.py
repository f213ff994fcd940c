"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "streamgmm"


def test_importing_loads_no_leaf() -> None:
    code = "import sys, streamgmm; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "streamgmm" in loaded
    assert [m for m in loaded if m.split(".")[0] in ("sklearn", "scipy", "matplotlib", "typer", "rich", "PIL")] == []
    assert [m for m in loaded if m.startswith("streamgmm.")] == []


def test_every_public_name_resolves() -> None:
    import streamgmm

    for name in streamgmm.__all__:
        assert getattr(streamgmm, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        streamgmm.Nothing  # noqa: B018


@pytest.mark.source
def test_stubs_are_current(tmp_path: Path) -> None:
    made = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "streamgmm.kernels._native", "-o", str(made)]
    subprocess.run(command, check=True)
    assert made.read_text() == (PACKAGE / "kernels" / "_native.pyi").read_text(), "run `make stubs`"


@pytest.mark.source
def test_files_are_small() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for folder in (PACKAGE, ROOT / "tests", ROOT / "bench")
        for p in folder.rglob("*")
        if p.suffix in (".py", ".h", ".cpp") and (n := len(p.read_text().splitlines())) > 400
    }
    assert long == {}


@pytest.mark.source
def test_equations_carry_the_same_labels_everywhere() -> None:
    def labels(path: Path) -> set[str]:
        return set(re.findall(r"\[E\d+\]", path.read_text()))

    reference = labels(PACKAGE / "equations.py")
    assert reference == {f"[E{n}]" for n in range(1, len(reference) + 1)}
    assert labels(ROOT / "docs" / "math.md") == reference
    for header in (PACKAGE / "kernels").glob("*.h"):
        assert labels(header) <= reference


@pytest.mark.source
def test_versions_agree() -> None:
    import streamgmm

    assert f'version = "{streamgmm.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"## [{streamgmm.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
