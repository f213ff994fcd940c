"""The command line. Data go to standard output, messages to standard error."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run a command; report a mistake of the user in one line, and a bug of ours with a traceback."""
    if sys.argv[1:] == ["--version"]:  # without loading anything
        import streamgmm

        print(streamgmm.__version__)
        return
    if sys.stdout is None:  # closed, as by >&-: what is printed goes nowhere
        sys.stdout = open(os.devnull, "w", encoding="utf8")  # noqa: SIM115
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, exit_at_once)
        from streamgmm.cli.app import run

        sys.exit(run())
    except KeyboardInterrupt:
        print("streamgmm: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def exit_at_once(number: int, frame: object) -> None:
    """Handle Ctrl-C while modules are loaded, where an exception may be lost or become another one."""
    os.write(2, b"streamgmm: interrupted\n")
    os._exit(INTERRUPTED)
