"""How tests run commands: in this process, unless a process matters."""

from __future__ import annotations

import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from streamgmm.cli.app import run

COMMAND = [sys.executable, "-m", "streamgmm"]  # for those that are killed, or read from a pipe


class Done(NamedTuple):
    """What a command has left."""

    code: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """Messages to people, as one line."""
        return " ".join(self.stderr.split())


def invoke(*arguments: object, folder: Path | str = ".") -> Done:
    """Run a command in a folder; a bug of ours raises."""
    out, errors = StringIO(), StringIO()
    with (
        chdir(folder),
        patch.object(sys, "argv", ["streamgmm", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            code = run()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), errors.getvalue())


def streamgmm(*arguments: object, folder: Path | str = ".", fails: bool = False) -> Done:
    """Run a command that succeeds, or one that fails for a reason that it tells in a line."""
    done = invoke(*arguments, folder=folder)
    assert (done.code != 0) == fails, done.stderr
    assert "Traceback" not in done.stderr
    return done
