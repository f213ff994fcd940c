"""What a run reads: usable rows of all its passes, or of everything that arrives."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.passes import Plan, plan_passes
from streamgmm.core.rows import float_type
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.errors import Remedy, SourceError
from streamgmm.monitoring import Monitor
from streamgmm.runs.absence import Absence
from streamgmm.runs.event_log import EventLog
from streamgmm.runs.observer import as_floats
from streamgmm.runs.options import RunOptions
from streamgmm.runs.order import follows_change, in_order
from streamgmm.runs.refinement import AllRows
from streamgmm.sources import (
    FINGERPRINT_BYTES,
    Chunk,
    Position,
    ReplacedError,
    Source,
    drop_unfit,
    fingerprint,
    has_fingerprint,
    read_source,
    select_columns,
)
from streamgmm.storage.run_folder import Progress, RunRecord

IDLE_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 3600.0  # seconds between two reports of idleness: at first, and in the long run


class SourceReader(ABC):
    """The reading part of a `TrainingRun`, which learns what is read here."""

    source: Source
    options: RunOptions
    stop: Callable[[], bool]
    trainer: Trainer | None
    monitor: Monitor
    record: RunRecord
    _settings: Settings
    _period: int  # samples between two checks
    _sample: npt.NDArray[Any] | None = None  # rows on which EM improves the model after the first pass
    _n_numbers: int = 0  # in means and covariances, as soon as the width of rows is known
    _log: EventLog
    _absence: Absence
    _feature_names: list[str] | None

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        return self.record.progress

    @abstractmethod
    def save(self, log_event: bool = True) -> None:
        """Write a checkpoint."""

    @abstractmethod
    def _save_if_due(self) -> None:
        """Write a checkpoint if the last one is old."""

    # Passes

    @property
    def chooses_passes(self) -> bool:
        """Whether the run decides itself how many passes it makes."""
        settings = self._settings if self.trainer is None else self.trainer.settings
        return self.options.passes == "auto" and self.source.finite and not follows_change(settings)

    @property
    def expected_samples(self) -> int | None:
        """Samples that all passes have, if the number of rows is known."""
        rows = self.source.n_rows
        return None if rows is None or self.options.passes is None else rows * self._passes_over(rows)

    def _passes_over(self, rows: int) -> int:
        return self._plan(rows).passes

    def _plan(self, rows: int) -> Plan:
        """Return how many passes to make over so many rows, and how many of them EM takes after the first one."""
        if not self.chooses_passes and self.options.passes in ("auto", None):
            return Plan(1, 0)
        settings = self._settings if self.trainer is None else self.trainer.settings
        return plan_passes(
            self.options.passes or 1, settings, self._period, rows, self._n_numbers, sample=self._samples_passes
        )

    def _plan_passes(self, trainer: Trainer) -> None:
        """Make as many passes as a training needs that continues."""
        self._period = trainer.schedule.period
        self._n_numbers = trainer.n_numbers

    def _note_width(self, n_features: int) -> None:
        """Remember how large the model is, on which the number of passes depends."""
        settings = self._settings if self.trainer is None else self.trainer.settings
        self._n_numbers = settings.kind.n_parameters(int(settings.n_components), n_features)

    def _chunks(self) -> Iterator[Chunk | None]:
        """Yield the chunks of all remaining passes or, without a number of passes, of everything that arrives.

        None stands between two passes where a sample of the rows is there to refine the model.
        """
        if self.options.passes is None:
            yield from self._follow()
            return
        progress = self.progress
        chunks = self._passes(progress.epoch, progress.position, progress.pass_rows)
        for number, chunk in read_source(self.source, chunks, self._stop_while_waiting):
            if number > progress.epoch:
                self._end_pass()
                if self._sample is not None and self.trainer is not None and self.trainer.annealed:
                    yield None
            progress.epoch = number
            progress.pass_rows += len(chunk.rows) if number == 0 else 0
            yield chunk

    def _end_pass(self) -> None:
        progress = self.progress
        progress.counted_rows = progress.n_rows
        if self.trainer is None:
            return
        if progress.epoch == 0 and self.chooses_passes:
            self.trainer.end_pass()
        self.trainer.forget_glitches(progress.epoch + 1)

    def _passes(self, number: int, position: Position | None, rows: int) -> Iterator[tuple[int, Chunk]]:
        """Yield every chunk with the number of its pass; reading ahead crosses from one pass to the next.

        ``rows`` counts the rows of the first pass, on which the number of passes may depend.
        """
        while number < self._passes_over(rows):
            for chunk in self._usable_chunks(position or self.source.start_of_pass(number)):
                rows += len(chunk.rows) if number == 0 else 0
                self._note_width(chunk.rows.shape[1])
                yield number, chunk
            if not rows:
                return
            plan = self._plan(rows)
            if number == 0 and plan.sampled and plan.passes > 1:
                self._sample = self._first_rows_of_pass(plan.sampled)
            number, position = number + 1, None

    def _first_rows_of_pass(self, count: int) -> npt.NDArray[Any]:
        """Return the first rows of a shuffled pass, which are as good as drawn at random."""
        found, left = list[npt.NDArray[Any]](), count
        for chunk in self._usable_chunks(self.source.start_of_pass(0)):
            found.append(self._without_gaps(chunk)[0][:left])
            left -= len(found[-1])
            if not left:
                break
        return np.concatenate(found)

    @property
    def _samples_passes(self) -> bool:
        """Whether the first rows of a pass are as good as drawn at random."""
        return self.source is not in_order(self.source)

    def _refine_on_sample(self) -> None:
        """Refine correlations between two passes; see `plan_passes`."""
        sample, self._sample = self._sample, None
        assert self.trainer is not None
        assert sample is not None
        self.trainer.refine(as_floats(sample, self.source.factor).astype(np.float64))

    def _all_rows(self) -> Iterator[AllRows]:
        """Yield the rows to learn once more, in the order of the source."""
        for chunk in self._usable_chunks(None, in_order(self.source)):
            rows, numbers = self._without_gaps(chunk)
            if len(rows):
                yield AllRows(rows, numbers)

    def _find_ids(self, numbers: set[int]) -> dict[int, Any]:
        """Return the ids of a few rows of a source that can be read again, by their numbers."""
        found = dict[int, Any]()
        for chunk in self._usable_chunks(None, in_order(self.source)):
            pairs = zip(chunk.numbers.tolist(), chunk.ids or (), strict=False)
            found |= {number: value for number, value in pairs if number in numbers}
            if len(found) == len(numbers):
                break
        return found

    # Streams

    def _follow(self) -> Iterator[Chunk]:
        """Yield chunks until stopped, and rest whenever there are none."""
        idle, told, pause = False, -inf, FIRST_PAUSE
        while True:
            for chunk in read_source(self.source, self._new_chunks(), self._stop_while_waiting):
                if idle and self.trainer is not None:
                    self._log.write("resumed", self.trainer)
                idle = False
                yield chunk
            if self.stop() or not self.source.grows:  # a pipe ends only once
                return
            if not idle and self.trainer is not None and time.perf_counter() - told >= pause:
                self._log.write("idle", self.trainer)
                self.save()  # it may be long before anything arrives
                idle, told, pause = True, time.perf_counter(), min(LONGEST_PAUSE, 2 * pause)
            self._save_if_due()
            time.sleep(IDLE_SECONDS)

    def _new_chunks(self) -> Iterator[Chunk]:
        """Return what is new since; all of it, if the file was replaced (logs are rotated)."""
        try:
            self._look_for_another_file()
        except FileNotFoundError:
            self._absence.note(gone=True)
            return iter(())
        self._absence.note(gone=False)
        return self._unless_replaced(self._usable_chunks(self.progress.position))

    def _unless_replaced(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the same chunks; a file that is replaced just now is found at the next look."""
        try:
            yield from chunks
        except (FileNotFoundError, ReplacedError):
            return

    def _look_for_another_file(self) -> None:
        """Start from the beginning if the file was replaced; raise FileNotFoundError if it is gone."""
        path = self.source.path
        if path is not None and self.record.fingerprint and not has_fingerprint(path, self.record.fingerprint):
            warnings.warn(f"{self.source.name} was replaced: learning it from its beginning.", stacklevel=2)
            if self.trainer is not None:
                self._log.write("replaced", self.trainer)
            self.progress.position, self.record.fingerprint = None, fingerprint(path)
            self.progress.n_rows = self.progress.counted_rows = 0
            self.progress.earlier_samples = self.progress.samples
            self.monitor.strangest.clear()
        in_order(self.source).fingerprint = None if path is None else self.record.fingerprint

    def _has_fingerprint(self, known: list[Any] | None) -> bool:
        return known is None or self.source.path is None or has_fingerprint(self.source.path, known)

    def _extend_fingerprint(self) -> None:
        """Take a longer fingerprint of a file that was short when the run began, if it is still the same."""
        path, known = self.source.path, self.record.fingerprint
        if path is None or known is None or known[0] >= FINGERPRINT_BYTES or not path.exists():
            return
        if has_fingerprint(path, known):
            self.record.fingerprint = fingerprint(path)

    def _stop_while_waiting(self) -> bool:
        self._save_if_due()
        return self.stop()

    # Rows

    def _usable_chunks(self, position: Position | None, source: Source | None = None) -> Iterator[Chunk]:
        """Yield chunks from a position on, without rows that cannot be learned; runs in the reading thread."""
        dtype, source = None, source or self.source
        if self.trainer is not None:
            dtype = self.trainer.dtype
            source.expect(self._feature_names, self.trainer.n_features)
        for chunk in source.chunks(position):
            if len(chunk.rows):
                self._feature_names = self._feature_names or source.feature_names
                rows = select_columns(chunk.rows, source.feature_names, self._feature_names, source.name)
                dtype = dtype or float_type(rows, of_bytes=np.float32)
                gaps, names = self.options.missing != "error", self._feature_names
                chunk = drop_unfit(chunk._replace(rows=rows), dtype, source, gaps=gaps, names=names)
            yield chunk

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
            rows, numbers = rows[whole], numbers[whole]
        return rows, numbers
