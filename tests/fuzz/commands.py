"""Model files as the commands use them: what each prints, writes and draws, and runs that continue or go back."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from tests.commands.command_line import invoke
from tests.fuzz.formats import Format, cut_bytes, flip_bytes
from tests.fuzz.model_examples import TABLE, coupled_examples, run_examples, table
from tests.fuzz.model_files import change_header, change_layout, change_tensor
from tests.fuzz.stacks import stack_examples
from tests.fuzz.text_files import CANVAS

MUTATIONS = (flip_bytes, cut_bytes, change_layout, *6 * (change_header,), *6 * (change_tensor,))
VERSION = "20260131T060000.000000Z"


@cache
def command_examples() -> list[bytes]:
    """Return checkpoints of runs, which commands use most, models with coupled features, and a stack."""
    return [*run_examples(), *coupled_examples(), stack_examples()[0]]


def try_commands(path: Path) -> None:
    """Describe a model, draw samples, fill in gaps, score, and continue and roll back the run that it is of."""
    named = b'feature_names\\": null' not in path.read_bytes()
    rows = _written(path.parent / f"gaps{named}.csv", _few_rows(5 if named else 4))
    source = _written(path.parent / TABLE, table())
    _call("info", path)
    _call("sample", path, "-n", 3)
    _call("impute", path, rows, "--id", "id", "--bad-rows", "skip")
    _call("score", path, rows, "--id", "id", "--explain", 2, "--bad-rows", "skip")
    resumed = ("--out", _run_folder(path), "--id", "id", "--resume")
    _call("watch", source, *resumed, "--no-follow", "--alert-to", path.parent / "alerts")
    _run_folder(path)
    _call("train", source, *resumed, "--passes", 1)
    whole = path.with_name("whole.safetensors")
    whole.write_bytes(run_examples()[1])
    _call("rollback", _run_folder(whole, path), "--list")
    _call("rollback", _run_folder(whole, path), "--to", VERSION, "--keep-position")
    _call("rollback", _run_folder(path, whole), "--to", VERSION)


@cache
def _few_rows(width: int) -> str:
    """Return the first columns of some rows of the table, with gaps."""
    heading, *rows = (line.split(",")[:width] for line in table().split("\n")[:12])
    for i, row in enumerate(rows):
        row[1 + i % 3] = ""
    return "".join(",".join(row) + "\n" for row in (heading, *rows))


def _written(path: Path, text: str) -> Path:
    if not path.exists():
        path.write_text(text)
    return path


def _run_folder(model: Path, version: Path | None = None) -> Path:
    """Return the folder of a run with this checkpoint, and perhaps a version of its model."""
    run = model.parent / "taken"
    shutil.rmtree(run, ignore_errors=True)
    (run / "versions").mkdir(parents=True)
    shutil.copyfile(model, run / "model.safetensors")
    if version is not None:
        shutil.copyfile(version, run / "versions" / f"{VERSION}.safetensors")
    return run


def _call(*arguments: Any) -> None:
    """Run a command; what it prints can be written to a terminal, and changes nothing there."""
    done = invoke(*arguments)
    assert "not enough memory" not in done.stderr, f"{arguments[0]} takes too much memory"
    (done.stdout + done.stderr).encode("utf8")
    said = done.stderr + (done.stdout if arguments[0] == "info" else "")  # rows go to programs, too
    assert "\x1b" not in said, f"{arguments[0]} sends commands to the terminal"


def try_pictures(path: Path) -> None:
    """Draw all pictures of a model, and samples, and show it on the page."""
    from bokeh.document import Document

    from streamgmm.dashboard.follower import Follower
    from streamgmm.dashboard.page import build

    build(document := Document(), Follower(path))
    json.dumps(document.to_json(), ensure_ascii=False, default=str).encode("utf8")
    _call("plot", path, "--out", path.parent / "pictures")
    _call("sample", path, "-n", 4, "--out", path.parent / "samples.png")


COMMANDS = (
    Format("commands", ".safetensors", command_examples, MUTATIONS, try_commands),
    Format("pictures", ".safetensors", command_examples, MUTATIONS, try_pictures, CANVAS),
)
