"""``streamgmm dashboard``"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from streamgmm.cli.options import Port
from streamgmm.errors import MissingExtraError


def dashboard(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Folder of a run: in progress, finished, or not started yet; or a model file."
        ),
    ],
    port: Port = 5006,
    address: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Serve the dashboard of a run to this machine, until Ctrl-C.

    Examples:

      streamgmm dashboard run

      streamgmm dashboard stack.safetensors

      ssh -L 5006:localhost:5006 server streamgmm dashboard run
    """
    try:
        import bokeh  # noqa: F401
    except ImportError as problem:
        raise MissingExtraError("The dashboard requires Bokeh", "dashboard") from problem
    from streamgmm.dashboard.server import serve

    if beside:
        threading.Thread(target=_exit_with_input, daemon=True).start()
    serve(run, port, address, ready=lambda page: typer.echo(f"{page}  (Ctrl-C to stop)"))


def _exit_with_input() -> None:
    """End this process when standard input ends: the process that started it has exited, for whatever reason."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)
