"""A training run: learn from a source into a folder, write events and checkpoints, resume after anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.control import Check
from streamgmm.core.engine import Engine
from streamgmm.core.rows import float_type
from streamgmm.core.scaling import Scaling, warn_of_scale
from streamgmm.core.settings import DEFAULT_CAP, Settings
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Monitor
from streamgmm.monitoring.strangest import short_id
from streamgmm.native import Steps
from streamgmm.runs.absence import Absence
from streamgmm.runs.column_warnings import nothing_to_learn, warn_of_columns, warn_of_empty_features
from streamgmm.runs.event_log import BAD_TOGETHER, EventLog, LearnedRows
from streamgmm.runs.observer import Observer, as_floats
from streamgmm.runs.options import RunOptions
from streamgmm.runs.order import Order, choose_order, continue_in_order, in_order, shuffle
from streamgmm.runs.refinement import can_refine, gather, refine
from streamgmm.runs.source_reader import SourceReader
from streamgmm.runs.watch import Rows, Watcher, run_name
from streamgmm.sources import BUFFER_BYTES, BadRow, Chunk, Source, fingerprint
from streamgmm.storage.model_file import SavedModel
from streamgmm.storage.run_folder import RunRecord, save_checkpoint, truncate_events
from streamgmm.storage.versions import add_version

WARM_UP = 1000  # rows from which a scaling is learned
BLOCK = 2000  # rows are scored, then learned, this many at a time


class Status(NamedTuple):
    """How far a run has come."""

    samples: int
    bad: int
    check: Check | None
    refining: int = 0  # by batch EM on so many rows, which may take long


class TrainingRun(SourceReader):
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
    watcher : Watcher or None, default=None
        Judges rows before they are learned.

    Attributes
    ----------
    trainer : Trainer or None
        None until the first rows were learned.
    progress : Progress
        How far it has come.
    order : Order
        Whether rows are shuffled, and why.
    refined : bool
        Whether the model was refined on all rows at the end.
    bursts : list of int
        Numbers of rows without which it was refined, because they describe a single moment.
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
        watcher: Watcher | None = None,
    ) -> None:
        self.folder, self.options, self.stop, self.watcher = folder, options, stop, watcher
        self._folder_name = folder.resolve().name  # looked up once: rows are judged faster than that
        self.order, self.refined, self.bursts = choose_order(source, settings, options), False, list[int]()
        seed = options.seed if self.order.shuffled else None
        self.source, self._absence = shuffle(source, seed), Absence(source.name)
        self.trainer: Trainer | None = None
        self.scaling: Scaling | None = None
        self.monitor = Monitor()
        self.record = RunRecord(source.name, options.missing, passes=options.passes, shuffle_seed=seed)
        self.bad: list[BadRow] = []
        self._settings, self._engine = settings, engine
        self._period = settings.make_schedule(settings.make_rule(), engine).period
        self._feature_names: list[str] | None = None
        self._first_rows: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []  # with their numbers
        self._log = EventLog(folder, self.progress)
        self._saved = (0, time.perf_counter())  # samples and time of the last checkpoint
        self._ids: dict[int, Any] | None = None  # of the rows of a chunk, by their numbers
        self._without_values: npt.NDArray[np.bool_] | None = None  # features that no row has had so far
        self._lacks_values, self._other_source = True, False  # if there are some; if no event has named the source yet

    def resume(self, saved: SavedModel, record: RunRecord) -> bool:
        """Continue from a checkpoint, in its order; return whether its source is this one, so that reading resumes."""
        self.trainer, self.scaling = saved.trainer, saved.scaling
        self._plan_passes(saved.trainer)
        self.monitor = saved.monitor or Monitor()
        self._feature_names = saved.feature_names
        in_order(self.source).heading = record.heading
        self.source.expect(saved.feature_names, saved.trainer.n_features)  # before the first line is read
        same = record.source == self.source.name and self._has_fingerprint(record.fingerprint)
        if self.watcher is not None:  # a burst is rows that follow each other, and a pipe brings what is new
            record, known = continue_in_order(record)
            same = same and known and not self.source.live
        self.source = shuffle(self.source, record.shuffle_seed)
        seed = record.shuffle_seed if self.source is not in_order(self.source) else None
        self.order = Order(seed is not None, "as before")
        missing, passes = self.options.missing, self.options.passes
        self.record = replace(record, source=self.source.name, missing=missing, passes=passes, shuffle_seed=seed)
        self.progress.missing = self.progress.missing or saved.trainer.n_skipped  # which 0.1 has counted apart
        if not same:
            self._forget_source()
            self.monitor.strangest.clear()
        self._other_source = not same
        return same

    def _forget_source(self) -> None:
        """Start with another source."""
        now = self.progress
        now.epoch, now.position, now.pass_rows, now.earlier_samples = 0, None, 0, now.samples
        now.n_rows = now.counted_rows = 0

    @property
    def alert_name(self) -> str:
        """Name of the run in alerts about rows of the present source."""
        return run_name(self._folder_name, self.source.name, self.progress.earlier_samples)

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
        return self.progress.missing

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
            if chunk is None:
                yield self._status()._replace(refining=0 if self._sample is None else len(self._sample))
                self._refine_on_sample()
                continue
            if self._other_source and self.trainer is not None:
                self._log_source("source", self.trainer)
            self._take(chunk)
            yield self._status()
            self._save_if_due()
            if self.stop():
                break
        else:
            if self._will_refine and not (ended and self.progress.samples == before):
                yield self._status()._replace(refining=self.progress.pass_rows)
            self.progress.finished = not self.stop()
        if ended and self.progress.finished and self.progress.samples == before:
            return  # it had ended before, and nothing was new
        if self.progress.finished and self._first_rows:
            self._end_warm_up()
        self._end(before)

    def _status(self) -> Status:
        check = None if self.trainer is None else self.trainer.current()
        return Status(self.progress.samples, self.progress.bad, check)

    def _end(self, before: int) -> None:
        if self.progress.finished and (self.trainer is None or not self.trainer.n_samples):
            raise nothing_to_learn(self.source.name, self.missing_rows, gaps=self.options.missing == "learn")
        if self.trainer is None:
            return  # stopped so early that nothing was learned; the source still has everything
        if self.progress.finished:
            if self.watcher is not None:
                self.watcher.finish(self.alert_name)
            self.trainer.flush()
            self._refine(self.trainer)
            if not before:
                warn_of_empty_features(self.source, self._feature_names, self._without_values)
        self._close("end" if self.progress.finished else "stop")

    @property
    def _will_refine(self) -> bool:
        """Whether the model is refined at the end: the run has learned few rows, all of which can be read again."""
        if self.trainer is None or self.scaling is not None or self.progress.earlier_samples:
            return False
        return self.chooses_passes and can_refine(self.trainer, self.progress.pass_rows)

    def _refine(self, trainer: Trainer) -> None:
        if self._will_refine:
            every = gather(self._all_rows(), trainer, self.source.factor)
            in_time = self.options.shuffle != "yes"
            without = None if every is None else refine(trainer, self.monitor, every, in_time=in_time)
            self.refined, self.bursts = without is not None, [] if without is None else without.tolist()
            if self.refined and self._ids is not None:
                numbers = self.monitor.strangest.numbers.tolist()
                ids = self._find_ids(set(numbers))
                self.monitor.strangest.ids = [short_id(ids.get(number)) for number in numbers]

    @property
    def _figures(self) -> dict[str, Any]:
        return {} if self.watcher is None else self.watcher.figures()

    def _close(self, kind: str) -> None:
        if self.trainer is not None:
            fields: dict[str, Any] = {"bad_rows": self.progress.bad, "missing_rows": self.missing_rows}
            fields |= {"refined": self.refined, "burst_rows": len(self.bursts)}
            self._log.write(kind, self.trainer, **fields, **self._figures)
        self.save()

    def _saved_on_failure(self, chunks: Iterator[Chunk | None], before: int) -> Iterator[Chunk | None]:
        """Yield the same chunks; if the source fails, save what was learned so far."""
        try:
            yield from chunks
        except Exception:
            if self.trainer is not None and self.progress.samples > before:
                self._close("stop")
            raise

    # Learning

    def _take(self, chunk: Chunk) -> None:
        """Learn a chunk, and move position and counts behind it."""
        rows, numbers = self._without_gaps(chunk)
        if chunk.ids is not None:
            self._ids = dict(zip(chunk.numbers.tolist(), chunk.ids, strict=True))
        if len(rows):
            self._learn(rows, numbers)
        self.progress.position = chunk.position
        self.progress.samples += len(rows)
        self._count(chunk)

    def _count(self, chunk: Chunk) -> None:
        """Count rows that are not learned, in the first pass that meets them."""
        progress, bad = self.progress, tuple(b for b in chunk.bad if b.row >= self.progress.counted_rows)
        if self.trainer is not None:
            self._log.write_bad(bad, self.trainer)
        self.bad += bad[: BAD_TOGETHER - len(self.bad)]
        progress.bad += len(bad)
        new = chunk.numbers >= progress.counted_rows
        if self.options.missing != "error" and chunk.rows.dtype.kind == "f" and new.any():
            gaps = np.isnan(chunk.rows[new])
            progress.missing += int((gaps.any(1) if self.options.missing == "skip" else gaps.all(1)).sum())
        last = max(int(chunk.numbers.max(initial=-1)), max((b.row for b in bad), default=-1))
        progress.n_rows = max(progress.n_rows, last + 1)

    def _learn(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> None:
        if self.options.scale != "none" and self.trainer is None and self.scaling is None:
            self._first_rows.append((rows, numbers))
            if sum(len(r) for r, _ in self._first_rows) >= WARM_UP:
                self._end_warm_up()
            return
        factor = self.source.factor
        if self.scaling is not None:
            dtype = float_type(rows, of_bytes=np.float32) if self.trainer is None else self.trainer.dtype
            rows, factor = self.scaling.apply(as_floats(rows, factor), dtype), 1.0
        trainer = self.trainer or self._start(rows, numbers, factor)
        if self.options.missing == "learn" and self._lacks_values:
            empty = np.isnan(rows).all(0) if rows.dtype.kind == "f" else np.zeros(rows.shape[1], np.bool_)
            self._without_values = empty if self._without_values is None else self._without_values & empty
            self._lacks_values = bool(self._without_values.any())
        observer, start, shuffled = Observer(trainer, self.monitor, self._ids), 0, self.order.shuffled
        if self.watcher is None and self.progress.epoch == 0:
            self.monitor.sample(as_floats(rows, factor), trainer)
        while start < len(rows):
            block = slice(start, start + (BLOCK if self.watcher is None else self.monitor.until_step))
            if self.watcher is not None:
                values = as_floats(rows[block], factor).astype(trainer.dtype, copy=False)
                found = Rows(values, numbers[block], self._ids)
                self.watcher.judge(self.alert_name, found, trainer, self.monitor, self._feature_names)
            annealed, before, reports = trainer.annealed, trainer.n_samples, list[Steps]()
            checks = trainer.feed(rows[block], factor, reports=reports, more=True)
            if annealed:
                observer.after(rows[block], numbers[block], factor, reports)
            if self.watcher is not None:
                self.monitor.add(values, trainer, drift=any(check.drift for check in checks))
                self.watcher.prepare(trainer, self.monitor)
            figures = None if self.watcher is None else self.watcher.figures
            learned = LearnedRows(numbers[block], before, None if shuffled else self._ids, figures)
            self._log.write_checks(checks, learned, trainer.schedule.sigma_min, shuffled=shuffled)
            start = block.stop

    def _start(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float) -> Trainer:
        """Start the training with rows like these."""
        dtype = float_type(rows, of_bytes=np.float32)
        if self._settings.scale == "none":
            cap = self._settings.precision_max or DEFAULT_CAP
            warn_of_scale(as_floats(rows[:WARM_UP], factor).astype(dtype), cap)
        self.trainer = Trainer(self._settings, rows.shape[1], dtype, engine=self._engine, seed=self.options.seed)
        self.record.left_out, self.record.heading = list(self.source.left_out), self.source.heading
        self._log_source("start", self.trainer)
        warn_of_columns(self.source, rows, numbers)
        return self.trainer

    def _log_source(self, kind: str, trainer: Trainer) -> None:
        """Say in an event what is read from here on, and how."""
        self._other_source, rule = False, trainer.settings.rule
        self._log.write(
            kind,
            trainer,
            source=self.source.name,
            features=trainer.n_features,
            components=trainer.n_components,
            rule=rule if isinstance(rule, str) else str(rule),
            scale=self.scale,
            shuffled=self.order.shuffled,
            order=str(self.order),
            buffer_bytes=BUFFER_BYTES if self.order.shuffled else 0,
            passes="auto" if self.chooses_passes else self.options.passes,
            left_out=self.record.left_out,
        )

    def _end_warm_up(self) -> None:
        """Learn the scaling from the first rows, then learn these rows themselves."""
        rows, numbers = (np.concatenate(parts) for parts in zip(*self._first_rows, strict=True))
        self._first_rows.clear()
        self.scaling = Scaling.learn(self.options.scale, as_floats(rows[:WARM_UP], self.source.factor))
        self._learn(rows, numbers)

    # Writing

    @property
    def checkpoint_age(self) -> float:
        """Seconds since the last checkpoint, or since the run began or resumed."""
        return time.perf_counter() - self._saved[1]

    def save(self, log_event: bool = True) -> None:
        """Write a checkpoint, and an event about it unless ``log_event`` is False."""
        if self.trainer is None or (self.trainer.warming_up and not self.options.rows):
            return
        self.trainer.settle()
        if self.watcher is not None:  # whose verdicts must not depend on when checkpoints are written
            self.record.watch = self.watcher.facts()
        elif not self.trainer.refined:
            self.monitor.calibrate(self.trainer)
        self.progress.seconds = self._log.seconds
        if log_event:
            self._log.write_checkpoint(self.trainer, self._figures)
        self._extend_fingerprint()
        self.progress.events = self._log.place
        saved = SavedModel(
            trainer=self.trainer,
            feature_names=self._feature_names,
            estimator={"random_state": self.options.seed},
            scaling=self.scaling,
            monitor=self.monitor,
            run=self.record.facts(),
        )
        save_checkpoint(self.folder, saved, rows=self.options.rows)
        self._log.thin()
        if self.watcher is not None:
            self.watcher.saved()
        if self.options.keep and (self.progress.samples > self._saved[0] or self.progress.finished):
            add_version(self.folder, self.options.keep)
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
