"""A training on a stream, in a folder: it learns, watches, writes events and checkpoints, goes on after anything."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm import events, keeping, kernels, training
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.keeping import EVENTS, Kept, Place, feature_names
from streamgmm.kernels import Steps
from streamgmm.recent import ODD_ROWS, Recent
from streamgmm.scaling import Scaling
from streamgmm.streams.base import (
    BEGINNING,
    Bad,
    Chunk,
    Position,
    Source,
    SourceError,
    ahead,
    beginning,
    begins_alike,
    by_name,
    only_fit,
)
from streamgmm.training import Check

IDLE_SECONDS = 0.5
CHECKPOINT_SECONDS = 60.0  # a slow stream is safe, too
OFTEN, SELDOM = 1.0, 3600.0  # seconds between two reports of idleness: at first, and in the long run
WARM_UP = 1000  # rows from which a scaling is learned
BLOCK = 2000  # rows are scored, then learned, so many at a time
ENOUGH_SCORES = 2000  # from then on only one row in SPARSE is scored before it is learned
BAD_REPORTED, BAD_TOGETHER = 1000, 10  # rows left out: after so many no more events, and so many in one
CHECKS_PER_LENGTH = 200  # written of a run: once annealing is over, a check waits for half a percent more samples
SPARSE, TOGETHER = 16, 256  # and no fewer than TOGETHER at once, if chunks are large enough
STRANGE = 25  # deviations below the usual loss: learning reports no more than 30, however strange a sample is


class Progress(NamedTuple):
    """How far a run has come."""

    samples: int
    bad: int
    check: Check | None


@dataclass
class Journey:
    """A run in its folder."""

    folder: Path
    source: Source
    model: StreamingGaussianMixture
    passes: int | None = 1  # None follows the source for ever
    checkpoint_every: int = 100_000
    checkpoint_seconds: float = CHECKPOINT_SECONDS  # also after so long
    scale: str = "none"
    missing: str = "error"
    stop: Callable[[], bool] = lambda: False
    place: Place = field(default_factory=Place)
    scaling: Scaling | None = None
    recent: Recent = field(default_factory=Recent)
    bad: list[Bad] = field(default_factory=list)  # the first rows that were left out
    _first_rows: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = field(default_factory=list)  # with their numbers
    _beginning: list[Any] | None = None  # of the source's file, by which it is known again
    _features: list[str] | None = None  # names, where the source has them
    _begun: float = field(default_factory=time.perf_counter)
    _saved: tuple[int, float] = (0, 0.0)  # samples and time of the last checkpoint
    _valueless: npt.NDArray[np.bool_] | None = None  # features that no row has had so far

    def go(self) -> Iterator[Progress]:
        """Learns until the source ends or ``stop`` says so; gives word after every chunk."""
        if self.stop():
            return
        keeping.take_back_events(self.folder, self.place)
        before, ended = self.place.samples, self.place.finished
        self._saved = before, time.perf_counter()
        self.place.finished, self._begun = False, time.perf_counter() - self.place.seconds
        self._beginning = None if self.source.path is None else beginning(self.source.path)
        for chunk in self._kept_on_failure(self._chunks(), before):
            self._take(chunk)
            yield Progress(self.place.samples, self.place.bad, self._current())
            self._save_if_due()
            if self.stop():
                break
        else:
            self.place.finished = not self.stop()
        if ended and self.place.finished and self.place.samples == before:
            return  # it had ended before, and nothing was new
        if self.place.finished and self._first_rows:
            self._write_checks(self._end_warm_up())
        if not self.started:
            if self.place.finished:
                raise SourceError(f"{self.source.name} has no rows to learn from.")
            return  # stopped so early that nothing was learned; the source still has it all
        if self.place.finished and not self.model._training.n_samples:
            raise SourceError(f"{self.source.name} has no rows to learn from: all {self._missing_rows} hold no number.")
        if self.place.finished:
            training.flush(self.model._training)
            if not before:
                self._tell_of_valueless()
        self._close("end" if self.place.finished else "stop")

    def _close(self, kind: str) -> None:
        self._write(self._event(kind, bad_rows=self.place.bad, missing_rows=self._missing_rows))
        self.save()

    def _kept_on_failure(self, chunks: Iterator[Chunk], before: int) -> Iterator[Chunk]:
        """The same chunks; if the source fails, what was learned so far is kept."""
        try:
            yield from chunks
        except Exception:
            if self.started and self.place.samples > before:
                self._close("stop")
            raise

    @property
    def started(self) -> bool:
        """Whether anything was learned; not while a scaling still waits for its first rows."""
        return bool(self.model.__sklearn_is_fitted__())

    @property
    def _missing_rows(self) -> int:
        return self.place.missing + (self.model._training.skipped if self.started else 0)

    def _chunks(self) -> Iterator[Chunk]:
        """Chunks of all passes that are left; with nobody to end it, also what comes later."""
        if self.passes is None:
            yield from self._follow()
            return
        chunks = self._passes(self.passes, self.place.epoch, self.place.position)
        for number, chunk in ahead(chunks, self._stop_while_waiting):
            self.place.epoch = number
            yield chunk

    def _passes(self, last: int, epoch: int, position: Position | None) -> Iterator[tuple[int, Chunk]]:
        """Every chunk with the number of its pass; the next pass is begun while the end of one is still learned."""
        for number in range(epoch, last):
            for chunk in self._fit_chunks(position):
                yield number, chunk
            position = None

    def _follow(self) -> Iterator[Chunk]:
        """Chunks for as long as nobody stops it, with a rest whenever there are none."""
        idle, told, pause = False, -inf, OFTEN
        while True:
            for chunk in ahead(self._from_here(), self._stop_while_waiting):
                if idle:
                    self._write(self._event("resumed"))
                idle = False
                yield chunk
            if self.stop():
                return
            if not idle and self.started and time.perf_counter() - told >= pause:
                self._write(self._event("idle"))
                self.save()  # it may be long before anything comes
                idle, told, pause = True, time.perf_counter(), min(SELDOM, 2 * pause)
            self._save_if_due()
            time.sleep(IDLE_SECONDS)

    def _from_here(self) -> Iterator[Chunk]:
        """What has come since; all of it, if the file is another one now (logs are moved away when they are long)."""
        path = self.source.path
        if path is not None and not path.exists():
            return iter(())
        if path is not None and self._beginning and not begins_alike(path, self._beginning):
            warnings.warn(f"{self.source.name} is another file now: it is learned from its beginning.", stacklevel=2)
            self._write(*([self._event("replaced")] if self.started else []))
            self.place.position, self._beginning = None, beginning(path)
            self.recent.forget_rows()
        return self._fit_chunks(self.place.position)

    def _stop_while_waiting(self) -> bool:
        self._save_if_due()
        return self.stop()

    def _save_if_due(self) -> None:
        samples, at = self._saved
        new, late = self.place.samples - samples, time.perf_counter() - at >= self.checkpoint_seconds
        if self.started and new and (late or new >= self.checkpoint_every):
            self.save(tell=self.place.samples >= self.place.told_checkpoint * (1 + 1 / CHECKS_PER_LENGTH))

    def _fit_chunks(self, position: Position | None) -> Iterator[Chunk]:
        """Chunks from a position on; raises for rows that must not come, here where reading waits anyway."""
        dtype = None
        if self.started:
            dtype = self.model._training.parameters.dtype
            self.source.expect(feature_names(self.model), self.model._training.parameters.n_features)
        for chunk in self.source.chunks(position):
            if len(chunk.rows):
                self._features = self._features or feature_names(self.model) or self.source.feature_names
                rows = by_name(chunk.rows, self.source.feature_names, self._features, self.source.name)
                dtype = dtype or _float_type(rows)
                chunk = only_fit(chunk._replace(rows=rows), dtype, self.source, gaps=self.missing != "error")
            yield chunk

    def _take(self, chunk: Chunk) -> None:
        """Learns a chunk; position and counts are those behind it."""
        rows, numbers = self._fit_rows(chunk)
        checks = self._learn(rows, numbers) if len(rows) else []
        self.place.position = chunk.position
        self.place.samples += len(rows)
        self._write_checks(checks)
        self._report(chunk.bad)

    def _report(self, bad: tuple[Bad, ...]) -> None:
        """Counts rows that were left out, and says which and why; not for ever."""
        if bad and self.place.bad < BAD_REPORTED and self.started:
            first = [b._asdict() for b in bad[:BAD_TOGETHER]]
            self._write(self._event("bad", count=len(bad), first=first))
        self.bad += bad[: BAD_TOGETHER - len(self.bad)]
        self.place.bad += len(bad)

    def _write_checks(self, checks: list[Check]) -> None:
        seconds, records = self._seconds(), []
        for check in checks:
            if check.drift:
                records.append(events.record("drift", check, seconds))
            quiet = not check.drift and check.sigma <= self.model._training.schedule.sigma_min
            if quiet and check.samples < self.place.told * (1 + 1 / CHECKS_PER_LENGTH):
                continue
            records.append(events.record("check", check, seconds))
            self.place.told = check.samples
        self._write(*records)

    def _fit_rows(self, chunk: Chunk) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Rows that may be learned, with their numbers."""
        rows, numbers = chunk.rows, chunk.numbers
        if self.started and rows.shape[1] != self.model._training.parameters.n_features and len(rows):
            raise SourceError(
                f"rows of {self.source.name} have {rows.shape[1]} features; the model has "
                f"{self.model._training.parameters.n_features}. Choose columns with --columns."
            )
        if self.missing == "skip" and rows.dtype.kind == "f":
            whole = ~np.isnan(rows).any(1)
            self.place.missing += len(rows) - int(whole.sum())
            rows, numbers = rows[whole], numbers[whole]
        return rows, numbers

    def _learn(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> list[Check]:
        if self.scale != "none" and self.scaling is None:
            self._first_rows.append((rows, numbers))
            waiting = sum(len(r) for r, _ in self._first_rows)
            return self._end_warm_up() if waiting >= WARM_UP else []
        dtype = self.model._training.parameters.dtype if self.started else _float_type(rows)
        factor = self.source.factor
        if self.scaling is not None:
            rows, factor = self.scaling.apply(_as_floats(rows, factor), dtype), 1.0
        if not self.started:
            self.model._start(_as_floats(rows[:WARM_UP], factor).astype(dtype))
            if self._features:
                self.model.feature_names_in_ = np.array(self._features, dtype=object)
            facts = {"components": self.model.n_components, "rule": str(self.model.rule), "scale": self.scale}
            self._write(self._event("start", source=self.source.name, features=rows.shape[1], **facts))
        if self.missing == "learn" and (self._valueless is None or self._valueless.any()):
            unknown = np.isnan(rows).all(0) if rows.dtype.kind == "f" else np.zeros(rows.shape[1], np.bool_)
            self._valueless = unknown if self._valueless is None else self._valueless & unknown
        checks: list[Check] = []
        for start in range(0, len(rows), BLOCK):
            block = slice(start, start + BLOCK)
            narrow = self._look_at(rows[block], numbers[block], factor)
            reports: list[Steps] = []
            checks += training.feed(self.model._training, rows[block], factor, reports=reports, more=True)
            if narrow:
                self._look_back_at(rows[block], numbers[block], factor, reports)
        return checks

    def _end_warm_up(self) -> list[Check]:
        """Learns the scaling from the first rows, then learns these rows themselves."""
        rows, numbers = (np.concatenate(parts) for parts in zip(*self._first_rows, strict=True))
        self._first_rows.clear()
        self.scaling = Scaling.learn(self.scale, _as_floats(rows[:WARM_UP], self.source.factor))
        return self._learn(rows, numbers)

    def _look_at(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float) -> bool:
        """Scores some rows before they are learned, so that we know what is usual; says whether annealing is over."""
        state = self.model._training
        behind = state.n_samples + state.skipped + len(rows)
        if state.annealing.sigma > state.schedule.sigma_min:
            self.place.looked = behind
            return False
        few = len(self.recent.scores) < ENOUGH_SCORES
        wanted = len(rows) if few else (behind - self.place.looked) // SPARSE
        if few or wanted >= TOGETHER:
            step = max(1, len(rows) // wanted)
            known = np.flatnonzero(training.rows_with_values(rows[::step])) * step
            self.place.looked = behind if few else self.place.looked + SPARSE * len(rows[::step])
            self.recent.scores.add(self._note(rows[known], numbers[known], factor))
        return True

    def _look_back_at(
        self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float, reports: list[Steps]
    ) -> None:
        """Keeps the strangest of rows just learned: where they are learned one by one, each was scored for that."""
        state = self.model._training
        if state.batch_size > 1 or not reports:
            return
        _, level, deviation = state.rule_state["usual"].tolist()
        bound = level - STRANGE * max(deviation, rows.shape[1] ** 0.5)
        limit = max(self.recent.bar, bound)
        # lists: NumPy would let go of the interpreter for a moment, and a thread that reads would have it for longer
        found = [report.max_components.tolist() for report in reports]
        if min(map(min, found)) >= limit:
            return
        learned = np.flatnonzero(training.rows_with_values(rows)).tolist() if state.allow_nan else range(len(rows))
        known = set(self.recent.odd_numbers.tolist())  # those of a pass before
        new = (
            (v, i) for v, i in zip(chain(*found), learned, strict=True) if v < limit and int(numbers[i]) not in known
        )
        strange = [i for _, i in nsmallest(ODD_ROWS, new)]
        if strange:
            self._note(rows[strange], numbers[strange], factor)

    def _note(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float) -> npt.NDArray[np.float64]:
        """Scores rows, and keeps the strangest."""
        state = self.model._training
        training.settle(state)
        some = rows if rows.dtype == np.uint8 else rows.astype(state.parameters.dtype, copy=False)
        scores = kernels.score(state.parameters, some, factor).log_likelihood
        self.recent.note(_as_floats(some, factor), scores, numbers, state.n_samples + state.skipped)
        return scores

    def _seconds(self) -> float:
        return time.perf_counter() - self._begun

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return events.record(kind, training.current(self.model._training), self._seconds(), **fields)

    def _current(self) -> Check | None:
        return training.current(self.model._training) if self.started else None

    def _write(self, *records: dict[str, Any]) -> None:
        if records:
            events.append(self.folder / EVENTS, *records)

    def save(self, tell: bool = True) -> None:
        """One checkpoint, which becomes an event if wanted; the one before it is kept."""
        training.settle(self.model._training)
        self.place.seconds = self._seconds()
        if tell:
            self._write(self._event("checkpoint", position=self.place.position))
            self.place.told_checkpoint = self.place.samples
        self._know_more_of_the_file()
        self.place.events = (self.folder / EVENTS).stat().st_size
        facts = {"source": self.source.name, "scale": self.scale, "missing": self.missing, "beginning": self._beginning}
        keeping.save(self.folder, Kept(self.model, facts, self.scaling, self.recent), self.place)
        self._saved = self.place.samples, time.perf_counter()

    def _know_more_of_the_file(self) -> None:
        """A file that was short when the run began is known by more of it, if it is still the same."""
        path, known = self.source.path, self._beginning
        if path is None or known is None or known[0] >= BEGINNING or not path.exists():
            return
        if begins_alike(path, known):
            self._beginning = beginning(path)

    def _tell_of_valueless(self) -> None:
        """Warns of features that were expected but never came."""
        if self._valueless is not None and self._valueless.any():
            names = feature_names(self.model) or [str(i) for i in range(len(self._valueless))]
            never = [repr(n) for n, no in zip(names, self._valueless, strict=True) if no]
            warnings.warn(
                f"no row of {self.source.name} has a number for {', '.join(never[:5])}{' …' if never[5:] else ''}: "
                "nothing was learned about it.",
                stacklevel=2,
            )


def _float_type(rows: npt.NDArray[Any]) -> np.dtype[Any]:
    """What a model that begins with such rows computes in."""
    return np.dtype(np.float32 if rows.dtype in (np.float32, np.uint8) else np.float64)


def _as_floats(rows: npt.NDArray[Any], factor: float) -> npt.NDArray[Any]:
    return rows * np.float32(factor) if rows.dtype == np.uint8 else rows
