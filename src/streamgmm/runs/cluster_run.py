"""A training run whose rows are read and learned by the workers of a cluster."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgmm.cluster.plan import PassPlan
from streamgmm.cluster.round_length import RoundLength
from streamgmm.cluster.rounds import RoundReport, RoundTotals, learn_round
from streamgmm.cluster.share_reader import Reading, ShareReader
from streamgmm.cluster.worker import Outcome, ShareWorker
from streamgmm.core.rows import rows_with_values
from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.engines.workers import ClusterEngine, Workers
from streamgmm.errors import Remedy, SourceError, StreamGMMError
from streamgmm.runs.event_log import BAD_TOGETHER, CHECKS_PER_LENGTH, LearnedRows
from streamgmm.runs.observer import as_floats
from streamgmm.runs.options import RunOptions
from streamgmm.runs.order import in_order
from streamgmm.runs.source_reader import IDLE_SECONDS
from streamgmm.runs.train import TrainingRun
from streamgmm.sources import Chunk, SeekableSource, Source
from streamgmm.sources.base import check_position
from streamgmm.sources.slices import Layout, Slices, end_of, find_layout, open_slices
from streamgmm.storage.model_file import SavedModel
from streamgmm.storage.run_folder import RunRecord
from streamgmm.storage.schema import COUNT, anything, record

FIRST_ROWS = 200  # read here at a time, until the scale of features is known


class Unobserved(NamedTuple):
    """A round whose rows are yet to be scored: they wait until workers are busy with the next one.

    Parameters
    ----------
    outcomes : list of Outcome
        Its learned shares.
    model : dict of str to ndarray
        Snapshot of the model before it; empty while annealing lasts.
    samples, epoch : int
        Samples learned before it, and number of the pass.
    """

    outcomes: list[Outcome]
    model: dict[str, Any]
    samples: int
    epoch: int


class ClusterRun(TrainingRun):
    """A training on a source that workers share, in a folder that is locked by the caller.

    This process shares out rows, merges what workers have learned, and does everything else that a run does. A
    checkpoint holds the parameters and what of the pass is left, so every row is learned exactly once.

    Parameters
    ----------
    folder : Path
        The run folder.
    open_source : callable
        Opens the source; called here and by every worker.
    settings : Settings
        How to train; ignored by a run that is resumed.
    engine : ClusterEngine
        Where workers run.
    options : RunOptions
        How to read and keep.
    stop : callable, default=never
        Asked after every round whether to stop.
    """

    def __init__(
        self,
        folder: Path,
        open_source: Callable[[], Source],
        settings: Settings,
        engine: ClusterEngine,
        options: RunOptions = RunOptions(),  # noqa: B008 (frozen)
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        source = open_source()
        if options.scale != "none":
            raise StreamGMMError(f"workers cannot scale rows by {options.scale!r}; learn data in any units instead.")
        if options.passes is None and (not source.grows or isinstance(source, SeekableSource)):
            raise SourceError(f"workers cannot follow {source.name}; expected a Kafka topic.")
        super().__init__(folder, source, settings, Serial(), options, stop)
        self._open, self._cluster = open_source, engine
        self._width: str | None = None
        self._length = RoundLength(engine.round_samples)
        self._left: dict[str, Any] = {}  # of the pass
        self._last_round_event = 0
        self._unobserved: Unobserved | None = None
        self._model_before: dict[str, Any] = {}  # the round that workers learn at present
        self.replaced, self.totals = 0, RoundTotals()
        self._note_cluster()

    def resume(self, saved: SavedModel, record: RunRecord) -> bool:
        before = record.cluster
        if before is None:
            raise StreamGMMError(f"{self.folder} was not trained on a cluster; resume it on one machine.")
        same = super().resume(saved, record)
        self._width = before["width"]
        if self._length.samples is None or before["round"]["samples"] == self._length.samples:
            self._length = RoundLength(**before["round"])
        if before["workers"] != self._cluster.workers:
            warnings.warn(
                f"this run had {before['workers']} workers and continues with {self._cluster.workers}: the result "
                "depends on their number.",
                stacklevel=2,
            )
        self._note_cluster()
        return same

    def _note_cluster(self) -> None:
        facts = {"workers": self._cluster.workers, "round": self._length.facts(), "width": self._width}
        self.record.cluster = facts

    # Reading

    @property
    def _samples_passes(self) -> bool:
        """Workers read the rows, so there is no sample of them here."""
        return False

    def _chunks(self) -> Iterator[Any]:
        """Yield the first rows, which are learned here, and then rounds that workers have learned."""
        with ExitStack() as after:
            progress, number, position = self.progress, self.progress.epoch, self.progress.position
            workers: Workers[Any, Any] | None = None
            while number < self._passes_over(progress.pass_rows):
                layout = self._layout(number, position)
                slices = open_slices(self.source, layout)
                plan = PassPlan(slices, position)
                if number > progress.epoch:
                    self._end_pass()
                    progress.epoch = number
                while self._wait_for_rows(plan):
                    if self.trainer is None or self.trainer.warming_up:
                        yield from self._first_chunks(plan, layout, slices)
                    else:
                        workers = workers or after.enter_context(closing(self._start_workers()))
                        yield self._round(workers, plan, layout)
                if self.stop() or not progress.pass_rows:
                    return
                number, position = number + 1, None

    def _layout(self, number: int, position: dict[str, Any] | None) -> Layout:
        """Cut a pass into slices: as it was when the pass began, if it is resumed."""
        seed = self.record.shuffle_seed
        layout = find_layout(self.source, number, seed)
        end = (position or {}).get("end")
        source = in_order(self.source)
        if end is not None and layout.blocks is not None and isinstance(source, SeekableSource):
            first = layout.blocks.position(0)
            check_position(position, {"end": record(dict.fromkeys(first, COUNT), unknown=anything)}, source.name)
            source.verify(end)
            if end["row"] > layout.blocks.rows[-1]:
                now, before = int(layout.blocks.rows[-1]), end["row"]
                raise SourceError(
                    f"{source.name} has {now:,} rows, but had {before:,} before: it has changed.", Remedy.START_NEW_RUN
                )
            layout = layout._replace(blocks=layout.blocks.between(first, end))
        return layout

    def _wait_for_rows(self, plan: PassPlan) -> bool:
        """Return whether there are rows; a topic that is followed is asked until there are some."""
        told = False
        while not plan.rows_left or self.options.passes is None:
            if self.stop() or self.options.passes is not None:
                return False
            plan.refresh()
            if plan.rows_left:
                return True
            if not told and self.trainer is not None:
                self._log.write("idle", self.trainer)
                self.save()
                told = True
            time.sleep(IDLE_SECONDS)
        return True

    def _first_chunks(self, plan: PassPlan, layout: Layout, slices: Slices) -> Iterator[Chunk]:
        """Yield rows that are learned here: they decide on the features and their scale."""
        [pieces] = plan.deal(1, FIRST_ROWS)
        reader = ShareReader(self._reading(), in_order(self.source))
        reader.use(layout, slices)
        self._left = {**plan.position(), "end": end_of(layout)}
        parts = list(reader.chunks(layout, pieces))
        if parts:  # one chunk, because positions within a share are not known
            whole = [np.concatenate([part[i] for part in parts]) for i in (0, 1)] if len(parts) > 1 else parts[0][:2]
            self._note_width(whole[0].shape[1])
            bad = tuple(b for part in parts for b in part.bad)
            self._feature_names = self._feature_names or self.source.feature_names
            self.progress.pass_rows += len(whole[0]) if self.progress.epoch == 0 else 0
            yield Chunk(whole[0], whole[1], self._position(layout.number, len(whole[0])), bad)

    def _position(self, number: int, more: int = 0) -> dict[str, Any]:
        return {"row": self.progress.samples + more, "pass": number, **self._left}

    def _reading(self) -> Reading:
        trainer = self.trainer
        names, missing = self._feature_names, self.options.missing
        if trainer is None:
            return Reading(self._open, missing, names)
        return Reading(self._open, missing, names, trainer.n_features, trainer.dtype.name)

    # Learning

    def _start_workers(self) -> Workers[Any, Any]:
        workers = self._cluster.open(partial(ShareWorker, self._reading()), self._width)
        self._width, self._without_values = workers.width, None
        return workers

    def _round(self, workers: Workers[Any, Any], plan: PassPlan, layout: Layout) -> RoundReport:
        assert self.trainer is not None
        counted = self.progress.counted_rows
        report = learn_round(self.trainer, workers, plan, layout, self._length, self._meanwhile, counted)
        self._unobserved = Unobserved(report.outcomes, self._model_before, self.progress.samples, self.progress.epoch)
        self._left = {**plan.position(), "end": end_of(layout)}
        self.replaced = workers.replaced
        self.totals.add(report)
        self._note_cluster()
        return report

    def _meanwhile(self) -> None:
        """Look at rows of the last round while workers learn the next, and keep the model as it is before that."""
        assert self.trainer is not None
        self._observe()
        self._model_before = self.trainer.snapshot() if self.trainer.annealed else {}

    def _observe(self) -> None:
        """Score some rows of the last round by the model before it, which had not learned them."""
        trainer, last = self.trainer, self._unobserved
        if trainer is None or last is None:
            return
        self._unobserved = None
        mixture = trainer.mixture_of(last.model) if last.model else None
        for outcome in last.outcomes:
            known = rows_with_values(outcome.sample)
            rows, numbers = as_floats(outcome.sample[known], self.source.factor), outcome.numbers[known]
            if not len(rows):
                continue
            rows = rows.astype(trainer.dtype, copy=False)
            if last.epoch == 0:
                self.monitor.sample(rows, trainer, np.full(len(rows), outcome.rows / len(rows)))
            if mixture is not None:
                self.monitor.strangest.add(rows, mixture.log_prob(rows), numbers, last.samples)

    def _end(self, before: int) -> None:
        self._observe()  # before all rows are, if there are few
        super()._end(before)

    def save(self, log_event: bool = True) -> None:
        self._observe()
        super().save(log_event)

    def _take(self, item: Any) -> None:
        if isinstance(item, Chunk):
            super()._take(item)
            return
        assert self.trainer is not None
        report: RoundReport = item
        progress, bad = self.progress, tuple(b for o in report.outcomes for b in o.bad)
        learned = LearnedRows(np.empty(0, np.int64), progress.samples)
        self._log.write_checks(report.checks, learned, self.trainer.schedule.sigma_min, shuffled=self.order.shuffled)
        self._log.write_bad(bad, self.trainer)
        self.bad += bad[: max(0, BAD_TOGETHER - len(self.bad))]
        progress.bad += sum(o.n_bad for o in report.outcomes)
        progress.missing += sum(o.n_missing for o in report.outcomes)
        progress.n_rows = max(progress.n_rows, *(o.end for o in report.outcomes))
        progress.pass_rows += report.rows if progress.epoch == 0 else 0
        progress.samples += report.rows
        progress.position = self._position(progress.epoch)
        self._write_round(report)

    def _write_round(self, report: RoundReport) -> None:
        """Write how fast each worker is, but not so often that events become many."""
        if self.trainer is None or self.progress.samples < self._last_round_event * (1 + 1 / CHECKS_PER_LENGTH):
            return
        self._last_round_event = self.progress.samples
        workers = [
            {
                "samples": o.learned.samples,
                "read_seconds": round(o.read_seconds, 4),
                "learn_seconds": round(o.learn_seconds, 4),
            }
            for o in report.outcomes
        ]
        self._log.write(
            "round",
            self.trainer,
            workers=workers,
            round_seconds=round(report.seconds, 4),
            merge_seconds=round(report.merge_seconds, 4),
            left=report.left,
            replaced=self.replaced,
        )
