"""A training run: learn from a source into a folder, write events and checkpoints, resume after anything."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.control import Check
from streamgmm.core.engine import Engine
from streamgmm.core.scaling import Scaling, warn_of_scale
from streamgmm.core.settings import DEFAULT_CAP, Settings
from streamgmm.core.trainer import Trainer
from streamgmm.errors import Remedy, SourceError
from streamgmm.monitoring import Monitor
from streamgmm.native import Steps
from streamgmm.runs.event_log import BAD_TOGETHER, EventLog
from streamgmm.runs.observer import Observer, as_floats
from streamgmm.runs.options import RunOptions
from streamgmm.sources import (
    FINGERPRINT_BYTES,
    BadRow,
    Chunk,
    Position,
    Source,
    drop_unfit,
    fingerprint,
    has_fingerprint,
    read_ahead,
    select_columns,
)
from streamgmm.storage.model_file import SavedModel
from streamgmm.storage.run_folder import Progress, RunRecord, save_checkpoint, truncate_events

IDLE_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 3600.0  # seconds between two reports of idleness: at first, and in the long run
WARM_UP = 1000  # rows from which a scaling is learned
BLOCK = 2000  # rows are scored, then learned, this many at a time


class Status(NamedTuple):
    """How far a run has come."""

    samples: int
    bad: int
    check: Check | None


class TrainingRun:
    """A training on a source, in a folder that is locked by the caller.

    Parameters
    ----------
    folder : Path
        The run folder.
    source : Source
        Where rows come from.
    settings : Settings
        How to train; ignored by a run that is resumed.
    engine : Engine
        Where steps run.
    options : RunOptions
        How to read and keep.
    stop : callable, default=never
        Asked after every chunk, and while waiting, whether to stop.

    Attributes
    ----------
    trainer : Trainer or None
        None until the first rows were learned.
    progress : Progress
        How far it has come.
    bad : list of BadRow
        The first rows that were skipped.
    """

    def __init__(
        self,
        folder: Path,
        source: Source,
        settings: Settings,
        engine: Engine,
        options: RunOptions = RunOptions(),  # noqa: B008 (frozen)
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder, self.source, self.options, self.stop = folder, source, options, stop
        self.trainer: Trainer | None = None
        self.scaling: Scaling | None = None
        self.monitor = Monitor()
        self.record = RunRecord(source.name, options.missing)
        self.bad: list[BadRow] = []
        self._settings, self._engine = settings, engine
        self._feature_names: list[str] | None = None
        self._first_rows: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []  # with their numbers
        self._log = EventLog(folder, self.progress)
        self._saved: tuple[int, float] = (0, 0.0)  # samples and time of the last checkpoint
        self._without_values: npt.NDArray[np.bool_] | None = None  # features that no row has had so far

    @property
    def progress(self) -> Progress:
        return self.record.progress

    def resume(self, saved: SavedModel, record: RunRecord) -> bool:
        """Continue from a checkpoint; return whether its source is this one, so that reading resumes, too."""
        self.trainer, self.scaling = saved.trainer, saved.scaling
        self.monitor = saved.monitor or Monitor()
        self._feature_names = saved.feature_names
        same = record.source == self.source.name and self._has_fingerprint(record.fingerprint)
        self.record = RunRecord(self.source.name, self.options.missing, record.fingerprint, record.progress)
        if not same:
            self.progress.epoch, self.progress.position = 0, None
            self.monitor.strangest.clear()
        return same

    def _has_fingerprint(self, known: list[Any] | None) -> bool:
        return known is None or self.source.path is None or has_fingerprint(self.source.path, known)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, where the source has some."""
        return self._feature_names

    @property
    def scale(self) -> str:
        """How rows are scaled."""
        if self.trainer is None:
            return self.options.scale
        return self.trainer.settings.scale if self.scaling is None else self.scaling.kind

    @property
    def missing_rows(self) -> int:
        """Rows skipped because of gaps."""
        return self.progress.missing + (self.trainer.n_skipped if self.trainer else 0)

    def go(self) -> Iterator[Status]:
        """Learn until the source ends or ``stop`` returns True; yield progress after every chunk."""
        if self.stop():
            return
        truncate_events(self.folder, self.progress)
        before, ended = self.progress.samples, self.progress.finished
        self._saved = before, time.perf_counter()
        self.progress.finished, self._log = False, EventLog(self.folder, self.progress)
        self.record.fingerprint = None if self.source.path is None else fingerprint(self.source.path)
        for chunk in self._saved_on_failure(self._chunks(), before):
            self._take(chunk)
            yield Status(self.progress.samples, self.progress.bad, self.trainer.current() if self.trainer else None)
            self._save_if_due()
            if self.stop():
                break
        else:
            self.progress.finished = not self.stop()
        if ended and self.progress.finished and self.progress.samples == before:
            return  # it had ended before, and nothing was new
        if self.progress.finished and self._first_rows:
            self._end_warm_up()
        self._end(before)

    def _end(self, before: int) -> None:
        if self.trainer is None:
            if self.progress.finished:
                raise SourceError(f"{self.source.name} has no rows to learn from.")
            return  # stopped so early that nothing was learned; the source still has everything
        if self.progress.finished and not self.trainer.n_samples:
            raise SourceError(
                f"{self.source.name} has no rows to learn from: none of its {self.missing_rows} rows holds a number."
            )
        if self.progress.finished:
            self.trainer.flush()
            if not before:
                self._warn_of_empty_features()
        self._close("end" if self.progress.finished else "stop")

    def _close(self, kind: str) -> None:
        if self.trainer is not None:
            self._log.write(kind, self.trainer, bad_rows=self.progress.bad, missing_rows=self.missing_rows)
        self.save()

    def _saved_on_failure(self, chunks: Iterator[Chunk], before: int) -> Iterator[Chunk]:
        """Yield the same chunks; if the source fails, save what was learned so far."""
        try:
            yield from chunks
        except Exception:
            if self.trainer is not None and self.progress.samples > before:
                self._close("stop")
            raise

    # Reading

    def _chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of all remaining passes or, without a number of passes, of everything that arrives."""
        if self.options.passes is None:
            yield from self._follow()
            return
        chunks = self._passes(self.options.passes, self.progress.epoch, self.progress.position)
        for number, chunk in read_ahead(chunks, self._stop_while_waiting):
            self.progress.epoch = number
            yield chunk

    def _passes(self, last: int, epoch: int, position: Position | None) -> Iterator[tuple[int, Chunk]]:
        """Yield every chunk with the number of its pass; reading ahead crosses from one pass to the next."""
        for number in range(epoch, last):
            for chunk in self._usable_chunks(position):
                yield number, chunk
            position = None

    def _follow(self) -> Iterator[Chunk]:
        """Yield chunks until stopped, and rest whenever there are none."""
        idle, told, pause = False, -inf, FIRST_PAUSE
        while True:
            for chunk in read_ahead(self._new_chunks(), self._stop_while_waiting):
                if idle and self.trainer is not None:
                    self._log.write("resumed", self.trainer)
                idle = False
                yield chunk
            if self.stop():
                return
            if not idle and self.trainer is not None and time.perf_counter() - told >= pause:
                self._log.write("idle", self.trainer)
                self.save()  # it may be long before anything arrives
                idle, told, pause = True, time.perf_counter(), min(LONGEST_PAUSE, 2 * pause)
            self._save_if_due()
            time.sleep(IDLE_SECONDS)

    def _new_chunks(self) -> Iterator[Chunk]:
        """Return what is new since; all of it, if the file was replaced (logs are rotated)."""
        path = self.source.path
        if path is not None and not path.exists():
            return iter(())
        if path is not None and self.record.fingerprint and not has_fingerprint(path, self.record.fingerprint):
            warnings.warn(f"{self.source.name} was replaced: learning it from its beginning.", stacklevel=2)
            if self.trainer is not None:
                self._log.write("replaced", self.trainer)
            self.progress.position, self.record.fingerprint = None, fingerprint(path)
            self.monitor.strangest.clear()
        return self._usable_chunks(self.progress.position)

    def _stop_while_waiting(self) -> bool:
        self._save_if_due()
        return self.stop()

    def _usable_chunks(self, position: Position | None) -> Iterator[Chunk]:
        """Yield chunks from a position on, without rows that cannot be learned; runs in the reading thread."""
        dtype = None
        if self.trainer is not None:
            dtype = self.trainer.dtype
            self.source.expect(self._feature_names, self.trainer.n_features)
        for chunk in self.source.chunks(position):
            if len(chunk.rows):
                self._feature_names = self._feature_names or self.source.feature_names
                rows = select_columns(chunk.rows, self.source.feature_names, self._feature_names, self.source.name)
                dtype = dtype or _float_type(rows)
                gaps = self.options.missing != "error"
                chunk = drop_unfit(chunk._replace(rows=rows), dtype, self.source, gaps=gaps)
            yield chunk

    # Learning

    def _take(self, chunk: Chunk) -> None:
        """Learn a chunk, and move position and counts behind it."""
        rows, numbers = self._without_gaps(chunk)
        if len(rows):
            self._learn(rows, numbers)
        self.progress.position = chunk.position
        self.progress.samples += len(rows)
        if self.trainer is not None:
            self._log.write_bad(chunk.bad, self.trainer)
        self.bad += chunk.bad[: BAD_TOGETHER - len(self.bad)]
        self.progress.bad += len(chunk.bad)

    def _without_gaps(self, chunk: Chunk) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return rows to learn, with their numbers."""
        rows, numbers, trainer = chunk.rows, chunk.numbers, self.trainer
        if trainer is not None and rows.shape[1] != trainer.n_features and len(rows):
            raise SourceError(
                f"rows of {self.source.name} have {rows.shape[1]} features; the model has {trainer.n_features}.",
                Remedy.CHOOSE_COLUMNS,
            )
        if self.options.missing == "skip" and rows.dtype.kind == "f":
            whole = ~np.isnan(rows).any(1)
            self.progress.missing += len(rows) - int(whole.sum())
            rows, numbers = rows[whole], numbers[whole]
        return rows, numbers

    def _learn(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> None:
        if self.options.scale != "none" and self.trainer is None and self.scaling is None:
            self._first_rows.append((rows, numbers))
            waiting = sum(len(r) for r, _ in self._first_rows)
            if waiting >= WARM_UP:
                self._end_warm_up()
            return
        factor = self.source.factor
        if self.scaling is not None:
            dtype = _float_type(rows) if self.trainer is None else self.trainer.dtype
            rows, factor = self.scaling.apply(as_floats(rows, factor), dtype), 1.0
        trainer = self.trainer or self._start(rows, factor)
        if self.options.missing == "learn" and (self._without_values is None or self._without_values.any()):
            empty = np.isnan(rows).all(0) if rows.dtype.kind == "f" else np.zeros(rows.shape[1], np.bool_)
            self._without_values = empty if self._without_values is None else self._without_values & empty
        observer = Observer(trainer, self.monitor, self.progress)
        for start in range(0, len(rows), BLOCK):
            block = slice(start, start + BLOCK)
            annealed, reports = trainer.annealed, list[Steps]()
            observer.before(rows[block], numbers[block], factor)
            checks = trainer.feed(rows[block], factor, reports=reports, more=True)
            if annealed:
                observer.after(rows[block], numbers[block], factor, reports)
            self._log.write_checks(checks, trainer.schedule.sigma_min)

    def _start(self, rows: npt.NDArray[Any], factor: float) -> Trainer:
        """Start the training with rows like these."""
        dtype = _float_type(rows)
        if self._settings.scale == "none":
            cap = self._settings.precision_max or DEFAULT_CAP
            warn_of_scale(as_floats(rows[:WARM_UP], factor).astype(dtype), cap)
        self.trainer = Trainer(self._settings, rows.shape[1], dtype, engine=self._engine, seed=self.options.seed)
        rule = self._settings.rule
        self._log.write(
            "start",
            self.trainer,
            source=self.source.name,
            features=rows.shape[1],
            components=self.trainer.n_components,
            rule=rule if isinstance(rule, str) else str(rule),
            scale=self.scale,
        )
        return self.trainer

    def _end_warm_up(self) -> None:
        """Learn the scaling from the first rows, then learn these rows themselves."""
        rows, numbers = (np.concatenate(parts) for parts in zip(*self._first_rows, strict=True))
        self._first_rows.clear()
        self.scaling = Scaling.learn(self.options.scale, as_floats(rows[:WARM_UP], self.source.factor))
        self._learn(rows, numbers)

    # Writing

    def save(self, log_event: bool = True) -> None:
        """Write a checkpoint, and an event about it unless ``log_event`` is False."""
        if self.trainer is None:
            return
        self.trainer.settle()
        self.progress.seconds = self._log.seconds
        if log_event:
            self._log.write_checkpoint(self.trainer)
        self._extend_fingerprint()
        self.progress.events = self._log.size
        saved = SavedModel(
            trainer=self.trainer,
            feature_names=self._feature_names,
            estimator={"random_state": self.options.seed},
            scaling=self.scaling,
            monitor=self.monitor,
            run=self.record.facts(),
        )
        save_checkpoint(self.folder, saved)
        self.source.commit(self.progress.position)
        self._saved = self.progress.samples, time.perf_counter()

    def _save_if_due(self) -> None:
        samples, at = self._saved
        new, late = self.progress.samples - samples, time.perf_counter() - at >= self.options.checkpoint_seconds
        held = self.source.needs_commit(self.progress.position)
        if self.trainer is None and held:
            self.source.commit(self.progress.position)  # there is no model yet that could be saved with these rows
        if self.trainer is not None and (held or (new and (late or new >= self.options.checkpoint_every))):
            self.save(log_event=self._log.checkpoint_due)

    def _extend_fingerprint(self) -> None:
        """Take a longer fingerprint of a file that was short when the run began, if it is still the same."""
        path, known = self.source.path, self.record.fingerprint
        if path is None or known is None or known[0] >= FINGERPRINT_BYTES or not path.exists():
            return
        if has_fingerprint(path, known):
            self.record.fingerprint = fingerprint(path)

    def _warn_of_empty_features(self) -> None:
        """Warn of features that never had a value."""
        if self._without_values is not None and self._without_values.any():
            names = self._feature_names or [str(i) for i in range(len(self._without_values))]
            empty = [repr(n) for n, no in zip(names, self._without_values, strict=True) if no]
            warnings.warn(
                f"no row of {self.source.name} has a number for {', '.join(empty[:5])}{' …' if empty[5:] else ''}: "
                "nothing was learned about it.",
                stacklevel=2,
            )


def _float_type(rows: npt.NDArray[Any]) -> np.dtype[Any]:
    """Choose what a model that begins with such rows computes in."""
    return np.dtype(np.float32 if rows.dtype in (np.float32, np.uint8) else np.float64)
