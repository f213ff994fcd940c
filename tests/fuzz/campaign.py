"""Run cases in child processes with limits of time and memory, and collect what goes wrong."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import mmap
import os
import re
import resource
import signal
import struct
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from streamgmm.errors import StreamGMMError
from tests.fuzz.formats import Format

SEEDS = Path(__file__).parent / "seeds"
SECONDS = 5.0  # of computing for one case
PATIENCE, POLL = 10.0, 0.05  # seconds that a case may sleep, and between two looks at it
GROWTH = 10  # times the size of a file that a case may take in memory
PER_CHILD = 2000
MEMORY = Path("/dev/shm")  # files that are synced to a disk would take most of the time
MMAP_THRESHOLD, MAPPED = -3, 1 << 16  # of mallopt: larger arrays are mapped, and given back when they are freed


class Finding(NamedTuple):
    """What went wrong, where, and with which case."""

    what: str
    case: int

    @property
    def kind(self) -> str:
        """The same for findings of the same cause, as far as can be told."""
        where = self.what.partition(": ")[0]
        return hashlib.sha256(re.sub(r"\d+", "", where).encode()).hexdigest()[:10]


class TooSlowError(BaseException):
    """A case took longer than allowed; not an Exception, so that nothing catches it on the way."""


def run_cases(form: Format, numbers: Iterable[int]) -> list[Finding]:
    """Try cases of these numbers; return what went wrong."""
    return run(form, [(number, None) for number in numbers])


def run_seeds(form: Format) -> list[Finding]:
    """Try again what went wrong once."""
    return run(form, list(enumerate(path.read_bytes() for path in seeds_of(form))))


def seeds_of(form: Format) -> list[Path]:
    """Return the files that went wrong once."""
    return sorted((SEEDS / form.name).glob("*"))


def run(form: Format, cases: list[tuple[int, bytes | None]]) -> list[Finding]:
    """Try cases, each by number or by content, in children that may crash."""
    form.examples()
    findings, waiting = list[Finding](), cases
    while waiting:
        done, found = _run_in_child(form, waiting[:PER_CHILD])
        findings += found
        waiting = waiting[done:]
    return findings


def _run_in_child(form: Format, cases: list[tuple[int, bytes | None]]) -> tuple[int, list[Finding]]:
    """Return how many cases were done, and what went wrong."""
    progress = mmap.mmap(-1, 8)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        report = Path(folder) / "findings"
        child = os.fork()
        if not child:
            _work(form, cases, Path(folder), progress)
        status = _wait(child, progress)
        done = max(0, struct.unpack("q", progress[:8])[0])
        lines = report.read_text().splitlines() if report.exists() else []
        found = [Finding(*json.loads(line)) for line in lines]
    if status:
        reason = f"ended with signal {status}" if status > 0 else f"ended with exit code {-status}"
        found.append(Finding(reason, cases[done][0]))
        done += 1
    return done, found


def _wait(child: int, progress: mmap.mmap) -> int:
    """Wait for a child, and end it if it makes no progress; return the signal that ended it, or minus its exit code.

    It has none if it computes for long, or sleeps for long. To wait for a busy machine is neither.
    """
    seen, began, asleep = b"", 0.0, 0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        state, used = _state_of(child)
        asleep = asleep + 1 if state in "SD" else 0
        if progress[:8] != seen:
            seen, began, asleep = progress[:8], used, 0
        if used - began > 2 * SECONDS or asleep * POLL > PATIENCE:
            os.kill(child, signal.SIGKILL)
        time.sleep(POLL)


def _state_of(process: int) -> tuple[str, float]:
    """Return what a process does (R, S, …), and for how many seconds it has computed."""
    facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return facts[0], (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


def _work(form: Format, cases: list[tuple[int, bytes | None]], folder: Path, progress: mmap.mmap) -> None:
    """Try cases in this process, and end it."""
    code = 1
    try:
        signal.signal(signal.SIGPROF, _too_slow)
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, MAPPED)
        warnings.simplefilter("ignore")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), resource.RLIM_INFINITY))
        for place, example in enumerate(form.examples()):  # so that modules are imported and caches filled
            progress[:8] = struct.pack("q", -1 - place)
            _problem(form, example, folder)
        with (folder / "findings").open("w") as report:
            for place, (number, given) in enumerate(cases):
                progress[:8] = struct.pack("q", place)
                content = form.case(number) if given is None else given
                if what := _problem(form, content, folder):
                    report.write(json.dumps([what, number]) + "\n")
                    report.flush()
            progress[:8] = struct.pack("q", len(cases))
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def _too_slow(*_: object) -> None:
    raise TooSlowError


def _problem(form: Format, content: bytes, folder: Path) -> str | None:
    grown = 0
    for _ in range(2):  # what a case takes, it takes again; once may be the garbage of others
        problem, grown = _tried(form, content, folder)
        if problem is not None or grown <= form.margin + GROWTH * len(content):
            return problem
        gc.collect()
    return f"takes {grown >> 20} MB for {len(content)} bytes"


def _tried(form: Format, content: bytes, folder: Path) -> tuple[str | None, int]:
    """Return what went wrong, and by how many bytes the process has grown."""
    path = folder / f"case{form.suffix}"
    path.write_bytes(content)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of earlier cases
    before, problem = _memory("VmRSS"), None
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        form.trial(path)
    except StreamGMMError:
        pass  # a sentence to the user
    except TooSlowError:
        problem = f"takes longer than {SECONDS:g} s"
    except BaseException as raised:
        problem = _place_of(raised)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return problem, _memory("VmHWM") - before


def _memory(name: str) -> int:
    """Return the resident memory of this process in bytes: VmRSS, or its peak VmHWM."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition(f"{name}:")[2].split(maxsplit=1)[0])


def _place_of(problem: BaseException) -> str:
    """Return the type of an exception and the last lines of ours that it passed."""
    frames: list[Any] = [f for f in traceback.extract_tb(problem.__traceback__) if "streamgmm" in f.filename]
    places = [f"{Path(f.filename).name}:{f.name}" for f in frames[-2:]]
    return f"{type(problem).__name__} in {' > '.join(places) or 'the trial'}: {problem!s:.100}"
