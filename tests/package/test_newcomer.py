"""The path of a new user: an empty environment, the wheel of ``make dist``, the first example, a picture."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks

pytestmark = [pytest.mark.source, pytest.mark.services]
DIST = ROOT / "dist"


def package(pattern: str) -> Path:
    """Return what ``make dist`` made; without it, skip the test, or fail on CI."""
    found = sorted(DIST.glob(pattern))
    if not found:
        without = pytest.fail if os.environ.get("CI") else pytest.skip
        without(f"there is no dist/{pattern}: make dist")
    return found[-1]


def wheel() -> Path:
    return package(f"*-cp{sys.version_info.major}{sys.version_info.minor}-*.whl")


class Environment:
    """An environment with nothing but pip, in which no compiler can be found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        self.programs = folder / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str, cwd: Path) -> str:
        """Run a program of the environment, which sees no other one."""
        hidden = ("PYTHON", "CMAKE", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        environment |= {"PATH": str(self.programs), "CC": "no-compiler", "CXX": "no-compiler", "MPLBACKEND": "agg"}
        program = str(self.programs / command[0])
        done = subprocess.run(
            [program, *command[1:]], cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """What a newcomer has after the line for pip."""
    made = Environment(tmp_path_factory.mktemp("newcomer") / "venv")
    made.run("python", "-m", "pip", "install", "--quiet", f"{wheel()}[plots]", cwd=made.folder)
    return made


def test_the_environment_has_no_compiler(newcomer: Environment) -> None:
    found = newcomer.run(
        "python", "-c", "import shutil; print(*map(shutil.which, ('cc', 'c++', 'gcc', 'cmake')))", cwd=newcomer.folder
    )
    assert found.split() == ["None"] * 4


def test_the_package_is_the_installed_one(newcomer: Environment) -> None:
    place = newcomer.run("python", "-c", "import streamgmm; print(streamgmm.__file__)", cwd=newcomer.folder)
    assert Path(place.strip()).is_relative_to(newcomer.folder)
    version = newcomer.run("streamgmm", "--version", cwd=newcomer.folder).strip()
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_first_example_draws_a_picture(newcomer: Environment, tmp_path: Path) -> None:
    """All Python of the first page, as one script."""
    (tmp_path / "example.py").write_text("\n".join(blocks(DOCS / "start.md", "python")), encoding="utf8")
    newcomer.run("python", "example.py", cwd=tmp_path)
    assert (tmp_path / "centroids.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "centroids.png").stat().st_size > 10_000


def test_the_first_commands_draw_pictures(newcomer: Environment, tmp_path: Path) -> None:
    (tmp_path / "write.py").write_text(blocks(DOCS / "start.md", "python")[0], encoding="utf8")
    newcomer.run("python", "write.py", cwd=tmp_path)
    for line in blocks(DOCS / "start.md", "sh")[0].splitlines():
        if line.startswith("streamgmm "):
            newcomer.run(*line.split(), cwd=tmp_path)
    assert len(list((tmp_path / "run").glob("*.png"))) == 9


def test_the_wheel_holds_the_package_alone() -> None:
    names = zipfile.ZipFile(wheel()).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"streamgmm"}
    assert [name for name in names if name.endswith((".h", ".cpp", ".pyc"))] == []
    assert f"streamgmm/native/_native{sysconfig.get_config_var('EXT_SUFFIX')}" in names
    assert "streamgmm/py.typed" in names


def test_the_sources_hold_all_that_a_build_needs() -> None:
    with tarfile.open(package("*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "Makefile"} <= names
    kernel = ROOT / "src" / "streamgmm" / "native"
    assert {str(p.relative_to(ROOT)) for p in kernel.rglob("*") if p.suffix in (".h", ".cpp")} <= names
    assert not any(name.startswith(("docs/_build", ".venv", "runs")) for name in names)


@pytest.mark.soak
def test_the_sources_can_be_installed(tmp_path: Path) -> None:
    """With a compiler, as pip does where there is no wheel; takes some minutes."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(package("*.tar.gz"))], check=True)
    code = "import numpy as np, streamgmm as s; print(s.StreamingGaussianMixture(2).fit(np.eye(300, 2)).n_features_in_)"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"
