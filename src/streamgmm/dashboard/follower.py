"""The contents of a run folder as the page shows them: events as they arrive, and the latest model.

Nothing here writes to the folder, and nothing raises if the folder is empty, half-written or gone; ``Follower.state``
says so instead.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.explanation import Reason
from streamgmm.core.grid import LAYOUTS, Grid
from streamgmm.dashboard.alerts import Incident, read_alerts
from streamgmm.dashboard.history import History
from streamgmm.dashboard.stacks import StackState, read_stack
from streamgmm.monitoring.bursts import PlainId
from streamgmm.monitoring.monitor import ids_of_tensors
from streamgmm.plots import image_shape
from streamgmm.storage import events
from streamgmm.storage.alert_log import ALERTS
from streamgmm.storage.container import DAMAGE
from streamgmm.storage.format3 import check_model
from streamgmm.storage.model_file import load_model, read_model_file
from streamgmm.storage.run_folder import EVENTS, MODEL

REASONS = 3  # features named for each of the strangest rows
MOST_EXPLAINED = 200_000  # means of a model that is asked for them: it takes about 0.1 s, whenever there is a new one
SAVED = "A saved model, without a record of its training."
QUIET_SECONDS = 30  # without events for longer, a run that has not ended may have been stopped


@dataclass(frozen=True)
class Model:
    """What the page shows of a model file.

    Parameters
    ----------
    means : array of shape (K, D)
        Means of the components.
    weights : array of shape (K,)
        Weights of the components.
    usage : array of shape (K,)
        Share of recent samples that each component has won.
    grid : Grid
        Layout of the components.
    strange_rows : array of shape (n, D)
        The strangest recent rows, strangest first.
    strange_scores : array of shape (n,)
        Log-likelihoods of these rows.
    strange_numbers : array of shape (n,)
        Numbers of these rows in their source.
    scaling : str
        How the run scales its rows; "none" if it does not.
    names : tuple of str or None, default=None
        Names of the features, if the source has some.
    strange_ids : tuple of str, int, float or None, default=()
        Ids or times of the strangest rows, if the source has some.
    reasons : tuple of list of Reason, default=()
        Why each of the strangest rows is strange; empty for images.
    stack : StackState or None, default=None
        The stack, if the file holds one; the model is then its lowest mixture.
    """

    means: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float64]
    usage: npt.NDArray[np.float64]
    grid: Grid
    strange_rows: npt.NDArray[np.float32]
    strange_scores: npt.NDArray[np.float64]
    strange_numbers: npt.NDArray[np.int64]
    scaling: str
    names: tuple[str, ...] | None = None
    strange_ids: tuple[PlainId, ...] = ()
    reasons: tuple[list[Reason], ...] = ()
    stack: StackState | None = None

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """Shape of a row as an image; None if rows are no images."""
        if self.stack is not None:
            return self.stack.shape
        return image_shape(self.means.shape[1], self.names)


def read_model(path: Path) -> Model | None:
    """Read a model file; return None if it is missing, incomplete or damaged.

    Parameters
    ----------
    path : Path
        The model file.
    """
    try:
        header, tensors = read_model_file(path)
        if "layers" in header:
            return _lowest(read_stack(path))
        check_model(header, tensors)
        means, none = tensors["parameters.means"], np.empty(0)
        if "frame" in tensors:
            shift, unit = tensors["frame"][:2]
            with np.errstate(all="ignore"):
                means = shift + means / unit
        strange = tensors.get("monitor.rows", np.empty((0, means.shape[1]), np.float32))
        scores = tensors.get("monitor.row_scores", none)
        if "scaling.factor" in tensors:
            shift, factor = tensors["scaling.shift"], tensors["scaling.factor"]
            means, strange = means / factor + shift, strange / factor + shift if len(strange) else strange
            scores = scores + np.log(factor).sum()
        means, strange = means.astype(np.float32), strange.astype(np.float32)
        logits = tensors["parameters.logits"]
        weights = np.exp(logits - logits.max())
        model = Model(
            means=means,
            weights=weights / weights.sum(),
            usage=tensors["usage"],
            grid=LAYOUTS[header["trainer"]["settings"]["grid"]](len(means)),
            strange_rows=strange,
            strange_scores=scores,
            strange_numbers=tensors.get("monitor.row_numbers", none.astype(np.int64)),
            scaling=str(header["scaling"] or "none"),
            names=_names(header, means.shape[1]),
            strange_ids=tuple(
                ids_of_tensors({n.removeprefix("monitor."): v for n, v in tensors.items()}, len(strange))
            ),
        )
    except (OSError, *DAMAGE):
        return None
    components = {model.means.shape[:1], model.weights.shape, model.usage.shape}
    rows = {model.strange_rows.shape[:1], model.strange_scores.shape, model.strange_numbers.shape}
    whole = len(components) == len(rows) == 1 and model.means.ndim == model.strange_rows.ndim == 2
    return _explained(path, model) if whole and np.isfinite(model.means).all() else None


def _lowest(stack: StackState) -> Model:
    """Return the lowest mixture of a stack; a stack keeps no strange rows."""
    return Model(
        means=stack.means,
        weights=stack.weights,
        usage=stack.usage,
        grid=stack.grid,
        strange_rows=stack.means[:0],
        strange_scores=np.empty(0),
        strange_numbers=np.empty(0, np.int64),
        scaling="none",
        stack=stack,
    )


def _names(header: dict[str, Any], count: int) -> tuple[str, ...] | None:
    names = header.get("feature_names")
    return tuple(map(str, names)) if isinstance(names, list) and len(names) == count else None


def _explained(path: Path, model: Model) -> Model:
    """Return a model with the reasons why rows are strange, if they are no images and the model can tell."""
    if model.image_shape is not None or not len(model.strange_rows) or model.means.size > MOST_EXPLAINED:
        return model
    try:
        found = load_model(path).mixture.explain(model.strange_rows, model.names, REASONS)
    except (OSError, ValueError):  # a covariance kind or a rule that this process does not know
        return model
    return replace(model, reasons=tuple(found))


class Follower:
    """Reads what is new in a run folder, in memory that does not grow with the run.

    Parameters
    ----------
    place : Path
        The run folder, which need not exist yet, or a model file.

    Attributes
    ----------
    folder : Path
        The folder, or that of the file.
    name : str
        Name of the folder or file.
    history : History
        Events so far.
    model : Model or None
        The latest complete model.
    alerts : list of Incident
        The latest bursts of anomalous rows, newest first.
    version : int
        Grows whenever history, model or alerts change.
    """

    def __init__(self, place: Path) -> None:
        self.folder, self._file = (place.parent, place.name) if place.is_file() else (place, MODEL)
        self.name = place.name
        self.version = 0
        self._reset()

    def _reset(self) -> None:
        self.history, self._offset = History(), 0
        self._event_file: int | None = None
        self._stamp: tuple[int, int] | None = None
        self.model: Model | None = None
        self.alerts: list[Incident] = []
        self._alert_stamp: tuple[int, int] | None = None
        self.version += 1

    @property
    def state(self) -> str:
        """One sentence about the state of the run."""
        if not self.folder.is_dir():
            return f"Folder {self.folder.name} does not exist: the run has not started, or it was moved or deleted."
        if self.model is not None and self.model.stack is not None:
            return self.model.stack.sentence
        if not self.history.last:
            return "The run has not written anything yet." if self.model is None else SAVED
        if self.model is None:
            return "There is no complete model file yet; curves are shown as they arrive."
        if self._ended_with("end"):
            return "The run has ended."
        if self._ended_with("stop"):
            return "The run was stopped and can be resumed."
        if [m.get("kind") for m in self.history.marks[-2:]] == ["idle", "checkpoint"]:
            return "The run is waiting for data."
        quiet = self._quiet_seconds()
        if quiet > QUIET_SECONDS:
            return f"The run has written nothing for {quiet / 60:,.0f} minutes: it is waiting, or it was stopped."
        return "The run is in progress."

    def _ended_with(self, kind: str) -> bool:
        """Return whether such an event is the last one, apart from a checkpoint after it."""
        last = self.history.last.get("samples", 0)
        latest = [m for m in self.history.marks[-2:] if isinstance(m.get("samples"), int)]
        return any(m.get("kind") == kind and m["samples"] >= last for m in latest)

    def _quiet_seconds(self) -> float:
        try:
            return max(0.0, time.time() - (self.folder / EVENTS).stat().st_mtime)
        except OSError:
            return 0.0

    def poll(self) -> bool:
        """Read what is new; return whether anything was."""
        before = self.version
        if self.folder.is_dir():
            self._read_events()
            self._read_model()
            self._read_alerts()
        elif self.history.last or self.model is not None:
            self._reset()
        return self.version != before

    def _read_events(self) -> None:
        try:
            with (self.folder / EVENTS).open("rb") as file:
                size, number = file.seek(0, 2), os.fstat(file.fileno()).st_ino
                if size < self._offset or self._event_file not in (None, number):  # truncated, thinned or replaced
                    self._reset()
                self._event_file = number
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    self._offset += len(line)
                    self._add_line(line)
        except OSError:
            return

    def _add_line(self, line: bytes) -> None:
        if (event := events.parse(line)) is not None:
            self.history.add(event)
            self.version += 1

    def _read_model(self) -> None:
        path = self.folder / self._file
        stamp = _stamp(path)
        if stamp not in (None, self._stamp) and (model := read_model(path)) is not None:
            self._stamp, self.model = stamp, model
            self.version += 1

    def _read_alerts(self) -> None:
        path = self.folder / ALERTS
        stamp = _stamp(path)
        if stamp not in (None, self._alert_stamp):
            self._alert_stamp, self.alerts = stamp, read_alerts(path)
            self.version += 1


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file does; None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
