"""What a page shows, read from a run's folder: events as they come, and the model whenever it is new.

Nothing here writes, and nothing raises for a folder that is empty, half-written or gone: ``state`` then says so.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

EVENTS, MODEL = "events.jsonl", "model.safetensors"
POINTS = 2000  # of a curve; a screen has no more columns
MARKS = 300
NARROW = 0.2  # a width at which components no longer hear of each other
RATE_SECONDS = 0.3
QUIET_SECONDS = 30  # without an event, a run that has not ended may have been stopped
MARKED = ("drift", "checkpoint", "idle", "resumed", "stop", "end")
COLUMNS = ("samples", "loss", "max_component", "sigma", "learning_rate", "live", "seconds", "rate")


@dataclass
class History:
    """Points of the curves, thinned so that their number stays bounded, and events worth a mark."""

    points: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    marks: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    step: int = 1  # every so many checks is a point
    _seen: int = 0
    _anchor: tuple[float, float] = (0.0, 0.0)
    _rate: float = float("nan")

    def add(self, event: dict[str, Any]) -> None:
        """Takes in one event, whatever it holds."""
        kind = event.get("kind")
        if kind == "start":
            self.facts = {k: v for k, v in event.items() if isinstance(v, str | int | float)}
            self._anchor = (0.0, _number(event.get("seconds", 0.0)))
        if kind in MARKED:
            self._mark(event)
        if not isinstance(event.get("samples"), int):
            return
        if kind == "check" and _number(event.get("sigma")) <= NARROW < _number(self.last.get("sigma")):
            self._mark({**event, "kind": "annealed"})
        self.last = event
        if kind != "check":
            return
        self._seen += 1
        if self._seen % self.step:
            return
        values = {name: _number(event.get(name)) for name in COLUMNS}
        values["rate"] = self._rate_at(values["samples"], values["seconds"])
        for name in COLUMNS:
            self.points[name].append(values[name])
        if len(self.points["samples"]) > POINTS:
            for name in COLUMNS:
                self.points[name] = self.points[name][1::2]
            self.step *= 2

    def _mark(self, event: dict[str, Any]) -> None:
        """Keeps the latest marks; checkpoints, of which there may be one a second, only as long as there is room."""
        self.marks.append(event)
        if len(self.marks) > MARKS:
            oldest = next((i for i, m in enumerate(self.marks) if m["kind"] == "checkpoint"), 0)
            del self.marks[oldest]

    def _rate_at(self, samples: float, seconds: float) -> float:
        """Samples a second, over at least a few tenths of one: several checks may come at the same moment."""
        then, at = self._anchor
        if seconds - at >= RATE_SECONDS:
            self._rate = (samples - then) / (seconds - at)
            self._anchor = (samples, seconds)
        elif seconds < at:  # a run that was resumed
            self._anchor = (samples, seconds)
        return self._rate


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


@dataclass(frozen=True)
class Model:
    """What the page draws of a model file."""

    means: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float64]
    usage: npt.NDArray[np.float64]
    grid: tuple[int, int]
    odd_rows: npt.NDArray[np.float32]
    odd_scores: npt.NDArray[np.float64]
    odd_numbers: npt.NDArray[np.int64]
    facts: dict[str, Any]


def read_model(path: Path) -> Model | None:
    """The model, or None while there is none that is whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["streamgmm"])
            names = set(file.keys())

            def tensor(name: str, otherwise: Any) -> Any:
                return file.get_tensor(name) if name in names else otherwise

            logits = file.get_tensor("logits")
            weights = np.exp(logits - logits.max())
            rows, columns = (int(n) for n in header["grid"])
            means = file.get_tensor("means").astype(np.float32)
            if rows * columns != len(means):
                return None
            return Model(
                means=means,
                weights=weights / weights.sum(),
                usage=tensor("usage", weights),
                grid=(rows, columns),
                odd_rows=tensor("extra.also.odd_rows", np.empty((0, means.shape[1]), np.float32)),
                odd_scores=tensor("extra.also.odd_scores", np.empty(0)),
                odd_numbers=tensor("extra.also.odd_numbers", np.empty(0, np.int64)),
                facts={**header.get("facts", {}).get("also", {}), "rule": header.get("rule", {}).get("name")},
            )
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError):
        return None


class Follower:
    """Reads what is new in a run's folder, as often as asked; memory does not grow with the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        self._forget()

    def _forget(self) -> None:
        self.history, self._at, self._stamp = History(), 0, (0, 0)
        self.model: Model | None = None
        self.version += 1

    @property
    def state(self) -> str:
        """One sentence for people."""
        if not self.folder.is_dir():
            return f"There is no folder {self.folder.name}: it was moved or deleted, or the run has not begun."
        if not self.history.last:
            return "The run has not written anything yet."
        if self.model is None:
            return "The run has no whole model file yet; curves are shown as they come."
        if self._last_words("end"):
            return "The run has ended."
        if self._last_words("stop"):
            return "The run was stopped; --resume goes on."
        if [m.get("kind") for m in self.history.marks[-2:]] == ["idle", "checkpoint"]:
            return "The run is waiting for data."
        quiet = self._quiet_seconds()
        if quiet > QUIET_SECONDS:
            return f"The run has written nothing for {quiet / 60:,.0f} minutes: it was stopped, or it is waiting."
        return "The run goes on."

    def _last_words(self, kind: str) -> bool:
        """Whether such an event, and the checkpoint behind it, is all that came lately."""
        last = self.history.last.get("samples", 0)
        return any(m.get("kind") == kind and m.get("samples", 0) >= last for m in self.history.marks[-2:])

    def _quiet_seconds(self) -> float:
        try:
            return max(0.0, time.time() - (self.folder / EVENTS).stat().st_mtime)
        except OSError:
            return 0.0

    def look(self) -> bool:
        """Reads what is new; says whether anything was."""
        before = self.version
        if not self.folder.is_dir():
            if self.history.last or self.model is not None:
                self._forget()
            return self.version != before
        self._read_events()
        self._read_model()
        return self.version != before

    def _read_events(self) -> None:
        try:
            with (self.folder / EVENTS).open("rb") as file:
                size = file.seek(0, 2)
                if size < self._at:  # taken back by a resume, or begun anew
                    self._forget()
                file.seek(self._at)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    self._at += len(line)
                    with suppress(ValueError):
                        event = json.loads(line)
                        if isinstance(event, dict):
                            self.history.add(event)
                            self.version += 1
        except OSError:
            return

    def _read_model(self) -> None:
        path = self.folder / MODEL
        try:
            found = path.stat()
        except OSError:
            return
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp != self._stamp and (model := read_model(path)) is not None:
            self._stamp, self.model = stamp, model
            self.version += 1
