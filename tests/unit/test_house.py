"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "streamgmm"
VAGUE = {"keeping", "looking", "running", "recent", "attributes", "inputs", "drifting", "reading", "utils", "helpers"}
MOST_PARAMETERS, MOST_NATIVE_PARAMETERS, MOST_LINES, MOST_TOP_MODULES = 8, 10, 400, 8
# methods of named tuples and of scikit-learn's estimators, and constants of other libraries
ALLOWED = {
    "_replace",
    "_asdict",
    "_fields",
    "_field_defaults",
    "_exit",
    "_getframe",
    "_repr_html_",
    "_PARTITION_EOF",
    "_AUTO_OFFSET_RESET",
    "_TRANSPORT",
    "_TIMED_OUT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_UNKNOWN_PARTITION",
    "_mmap",
}


def loaded_after(code: str) -> set[str]:
    code = f"import sys; {code}; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import streamgmm",
        "import streamgmm.core.trainer, streamgmm.core.mixture, streamgmm.engines",
        "sys.argv = ['streamgmm', '--version']; from streamgmm.cli import main; main()",
    ],
)
def test_importing_loads_no_leaf(code: str) -> None:
    leaves = {
        "sklearn",
        "scipy",
        "matplotlib",
        "typer",
        "rich",
        "PIL",
        "pyarrow",
        "datasketches",
        "safetensors",
        "bokeh",
        "onnx",
        "prometheus_client",
    }
    assert leaves & {module.split(".")[0] for module in loaded_after(code)} == set()


def test_the_package_itself_loads_nothing() -> None:
    assert [m for m in loaded_after("import streamgmm") if m.startswith("streamgmm.")] == []


def test_every_public_name_resolves() -> None:
    import streamgmm

    for name in streamgmm.__all__:
        assert getattr(streamgmm, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        streamgmm.Nothing  # noqa: B018


def test_the_old_name_of_sources_warns() -> None:
    code = "import warnings; warnings.simplefilter('error'); import streamgmm.streams"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "FutureWarning: streamgmm.streams is now streamgmm.sources" in done.stderr
    code = "from streamgmm.streams import open_source; from streamgmm.streams.glyphs import Glyphs; print(Glyphs)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert "Glyphs" in done.stdout


@pytest.mark.source
def test_stubs_are_current(tmp_path: Path) -> None:
    made = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "streamgmm.native._native", "-o", str(made)]
    subprocess.run(command, check=True)
    assert made.read_text() == (PACKAGE / "native" / "_native.pyi").read_text(), "run `make stubs`"


@pytest.mark.source
def test_files_are_small() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for folder in (PACKAGE, ROOT / "tests", ROOT / "bench")
        for p in folder.rglob("*")
        if p.suffix in (".py", ".h", ".cpp") and (n := len(p.read_text().splitlines())) > MOST_LINES
    }
    assert long == {}


@pytest.mark.source
def test_names_say_what_modules_hold() -> None:
    modules = {path.stem for path in PACKAGE.rglob("*.py")} | {p.name for p in PACKAGE.rglob("*") if p.is_dir()}
    assert modules & VAGUE == set()
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_TOP_MODULES


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def room(path: Path) -> str:
    """The folder below the package, or the module itself."""
    return path.relative_to(PACKAGE).parts[0]


@pytest.mark.source
def test_no_private_name_is_used_across_rooms() -> None:
    """A private name must be defined in the room that uses it: as attribute, method, function or module."""
    defined: dict[str, set[str]] = {}
    for path, tree in sources():
        own = defined.setdefault(room(path), {path.stem})
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
    found = []
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
                names += (node.module or "").split(".")
            else:
                continue
            for name in names:
                private = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
                allowed = name in ALLOWED or (name == "_native" and room(path) == "native")
                if private and not allowed and name not in defined[room(path)]:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert found == []


@pytest.mark.source
def test_only_tests_of_scikit_learn_know_its_private_names() -> None:
    """Names of scikit-learn that begin with an underscore may change with any release."""
    found = [
        str(p)
        for p in PACKAGE.rglob("*.py")
        if re.search(r"from sklearn\S* import .*\b_[a-z]|from sklearn\S*\._|import sklearn\S*\._", p.read_text())
    ]
    assert found == []


@pytest.mark.source
def test_functions_have_few_parameters() -> None:
    """Public constructors, which are documented, and commands may have more."""
    long = {}
    for path, tree in sources():
        if room(path) == "cli":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                named = [a for a in arguments if a.arg not in ("self", "cls")]
                if len(named) > MOST_PARAMETERS:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = len(named)
    assert long == {}


@pytest.mark.source
def test_native_bindings_have_few_parameters() -> None:
    tree = ast.parse((PACKAGE / "native" / "_native.pyi").read_text())
    counts = {n.name: len(n.args.args) for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    assert counts
    assert {name: count for name, count in counts.items() if count > MOST_NATIVE_PARAMETERS} == {}


@pytest.mark.source
def test_only_the_command_line_mentions_options() -> None:
    found = []
    for path, tree in sources():
        if room(path) in ("cli", "__main__.py"):
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.search(r"(^|\s|')--[a-z]", node.value)
            ):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.value[:60]!r}")
    assert found == []


@pytest.mark.source
def test_equations_carry_the_same_labels_everywhere() -> None:
    def labels(path: Path) -> set[str]:
        return set(re.findall(r"\[E\d+\]", path.read_text()))

    plain = ("reference.py", "reference_coupled.py", "reference_thresholds.py")
    reference = set[str]().union(*(labels(PACKAGE / "core" / name) for name in plain))
    assert reference == {f"[E{n}]" for n in range(1, len(reference) + 1)}
    assert labels(ROOT / "docs" / "math.md") == reference
    for header in (PACKAGE / "native").rglob("*.h"):
        assert labels(header) <= reference


@pytest.mark.source
def test_versions_agree() -> None:
    import streamgmm

    assert f'version = "{streamgmm.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"\nversion: {streamgmm.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{streamgmm.__version__.removesuffix('.dev0')}]" in (ROOT / "CHANGELOG.md").read_text()
