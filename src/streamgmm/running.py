"""A training on a stream, in a folder: checkpoints with the position of the source, events, going on after anything.

The checkpoint holds parameters, state and position in one file, so no sample is lost and none is learned twice: after
a kill at any moment, the run goes on from the last checkpoint and ends with the parameters of an uninterrupted one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm import events, inputs, training
from streamgmm.checkpoint import ModelFileError
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.streams.base import Chunk, Position, Source, SourceError, ahead
from streamgmm.training import Check

MODEL, PREVIOUS, EVENTS = "model.safetensors", "previous.safetensors", "events.jsonl"
IDLE_SECONDS = 0.5


class Progress(NamedTuple):
    """How far a run has come."""

    samples: int
    bad: int
    check: Check | None


@dataclass
class Place:
    """Where a run stands in its source, as the checkpoint knows it."""

    epoch: int = 0
    position: Position | None = None
    samples: int = 0
    bad: int = 0
    seconds: float = 0.0
    events: int = 0
    finished: bool = False

    def facts(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Journey:
    """A run in its folder."""

    folder: Path
    source: Source
    model: StreamingGaussianMixture
    passes: int | None = 1  # None follows the source for ever
    checkpoint_every: int = 100_000
    stop: Callable[[], bool] = lambda: False
    place: Place = field(default_factory=Place)

    def go(self) -> Iterator[Progress]:
        """Learns until the source ends or ``stop`` says so; gives word after every chunk."""
        begin, before, saved = time.perf_counter(), self.place.seconds, self.place.samples
        if self.place.finished and self.passes is not None and self.place.epoch >= self.passes:
            return
        self.place.finished = False

        def seconds() -> float:
            return before + time.perf_counter() - begin

        for chunk in self._chunks():
            checks = self._learn(chunk)
            self.place.position = chunk.position
            self.place.bad += len(chunk.bad)
            self.place.samples += len(chunk.rows)
            self.place.seconds = seconds()
            self._write(*(events.record("check", c, seconds()) for c in checks))
            yield Progress(self.place.samples, self.place.bad, self._current())
            if self.place.samples - saved >= self.checkpoint_every:
                self.save()
                saved = self.place.samples
            if self.stop():
                break
        else:
            self.place.finished = True
        if not self.model.__sklearn_is_fitted__():
            raise SourceError(f"{self.source.name} has no rows to learn from.")
        self.place.seconds = seconds()
        if self.place.finished:
            training.flush(self.model._training)
            self._write(
                events.record("end", training.current(self.model._training), seconds(), bad_rows=self.place.bad)
            )
        self.save()

    def _chunks(self) -> Iterator[Chunk]:
        """Chunks of all passes that are left; with nobody to end it, also what comes later."""
        while self.passes is None or self.place.epoch < self.passes:
            yield from ahead(self.source.chunks(self.place.position))
            if self.passes is None:
                if self.stop():
                    return
                time.sleep(IDLE_SECONDS)
                continue
            self.place.epoch += 1
            self.place.position = None

    def _learn(self, chunk: Chunk) -> list[Check]:
        rows = chunk.rows
        dtype = np.dtype(np.float32 if rows.dtype in (np.float32, np.uint8) else np.float64)
        if self.model.__sklearn_is_fitted__():
            state = self.model._training
            if rows.shape[1] != state.parameters.n_features:
                raise SourceError(
                    f"rows of {self.source.name} have {rows.shape[1]} features; the model has "
                    f"{state.parameters.n_features}. Choose columns with --columns."
                )
            dtype = state.parameters.dtype
        inputs.refuse_unfit(rows, dtype, f"{self.source.name} (from row {chunk.numbers[0] if len(rows) else 0} on)")
        if not len(rows):
            return []
        if not self.model.__sklearn_is_fitted__():
            self.model._start(_as_floats(rows[:1000], self.source.factor, dtype))
            start = training.current(self.model._training)
            facts = {"source": self.source.name, "components": self.model.n_components, "rule": str(self.model.rule)}
            self._write(events.record("start", start, 0.0, **facts))
        return training.feed(self.model._training, rows, self.source.factor)

    def _current(self) -> Check | None:
        return training.current(self.model._training) if self.model.__sklearn_is_fitted__() else None

    def _write(self, *records: dict[str, Any]) -> None:
        if records:
            events.append(self.folder / EVENTS, *records)

    def save(self) -> None:
        """One checkpoint; the one before it is kept."""
        current = training.current(self.model._training)
        self._write(events.record("checkpoint", current, self.place.seconds, position=self.place.position))
        self.place.events = (self.folder / EVENTS).stat().st_size
        newest = self.folder / MODEL
        fresh = self.folder / f".{MODEL}.next"
        self.model._save(fresh, {"run": self.place.facts()})
        if newest.exists():
            os.replace(newest, self.folder / PREVIOUS)
        os.replace(fresh, newest)


def _as_floats(rows: npt.NDArray[Any], factor: float, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.multiply(rows, factor if rows.dtype == np.uint8 else 1.0, dtype=dtype)


def resume(folder: Path) -> tuple[StreamingGaussianMixture, Place] | None:
    """The newest whole checkpoint of a run, or None if it has none yet; events written after it are taken back."""
    problems = []
    for name in (f".{MODEL}.next", MODEL, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        try:
            model, facts = StreamingGaussianMixture._load(path)
            place = Place(**facts["run"])
        except (ModelFileError, KeyError, TypeError) as problem:
            problems.append(f"{name}: {problem!s:.200}")
            continue
        _take_back(folder / EVENTS, place.events)
        return model, place
    if any(not p.startswith(".") for p in problems):
        raise ModelFileError(f"no checkpoint of {folder} can be used. " + " ".join(problems))
    _take_back(folder / EVENTS, 0)
    return None


def _take_back(path: Path, size: int) -> None:
    if path.exists() and path.stat().st_size > size:
        os.truncate(path, size)
