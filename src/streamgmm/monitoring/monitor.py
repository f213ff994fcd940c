"""What is typical of a stream: a sample of its rows, their scores under the current model, and the strangest rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.refinement import PARTS
from streamgmm.core.rows import rows_with_values
from streamgmm.core.state import require_range
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring.bursts import PlainId, is_plain_id
from streamgmm.monitoring.gaps import fill_gaps
from streamgmm.monitoring.optimism import NONE, Optimism
from streamgmm.monitoring.quantiles import reference_of_digests
from streamgmm.monitoring.reference import CAUTION, MOST_CAUTION, Reference
from streamgmm.monitoring.reservoir import MOST_ROWS, Reservoir, reservoir_size
from streamgmm.monitoring.strangest import MOST_ROWS as MOST_STRANGE
from streamgmm.monitoring.strangest import StrangestRows

STEP = 256  # rows; the reference may be scored anew after any multiple of them
MOST_SCORED = 10_000_000  # numbers of all rows that are scored at the end of a training that was not refined
GROWTH = 8  # and is so when a stream has grown by one in so many
FAR_PARTS = 10, 20, 50  # of a file, which rows are judged without: a long time instead of neighbours alone
RARE, MOST_NEW = 0.01, 0.05  # rows as rare as the first, that a long time may have; more are like a class of its own
BULK = 0.02, 0.1  # shares of rows between which the spread of scores is measured: outliers are fewer
UNKNOWN = Reference(np.empty(0), np.empty(0))


class Monitor:
    """What a run or a detector knows of its stream.

    Attributes
    ----------
    reservoir : Reservoir or None
        A sample of the rows; None before the first row, and in files that were saved without rows.
    reference : Reference
        What typical rows score, under a model that is at most an eighth of the stream older than the current one.
    strangest : StrangestRows
        The strangest recent rows.
    """

    def __init__(self) -> None:
        self.reservoir: Reservoir | None = None
        self.reference = UNKNOWN
        self._optimism = NONE  # of the sample, which the model may have been refined on
        self.strangest = StrangestRows()
        self._due = STEP  # rows at which the reference is scored anew
        self._snapshot: dict[str, npt.NDArray[Any]] = {}  # of the model that rows are judged by; empty if it is due

    def snapshot(self, trainer: Trainer) -> Mapping[str, npt.NDArray[Any]]:
        """Return the model as it was after the last multiple of 256 rows: verdicts do not depend on chunks.

        Parameters
        ----------
        trainer : Trainer
            The current model.
        """
        if not self._snapshot:
            trainer.settle()
            self._snapshot = trainer.snapshot()
        return self._snapshot

    def check_snapshot(self, trainer: Trainer) -> None:
        """Raise ValueError or KeyError if a file holds a snapshot that is damaged.

        Parameters
        ----------
        trainer : Trainer
            The model of the same file.
        """
        if self._snapshot:
            trainer.check_snapshot(self._snapshot)

    @property
    def until_step(self) -> int:
        """Rows until the reference may be scored anew: cut rows here, so that results do not depend on chunks."""
        return STEP - (0 if self.reservoir is None else self.reservoir.seen) % STEP

    def add(
        self,
        rows: npt.NDArray[Any],
        trainer: Trainer,
        counts: npt.NDArray[np.float64] | None = None,
        *,
        drift: bool = False,
    ) -> None:
        """Take in rows that were just learned, at most up to ``until_step``.

        Parameters
        ----------
        rows : array of shape (N, D)
            Rows as floats.
        trainer : Trainer
            What has learned them.
        counts : array of shape (N,) or None, default=None
            How often each counts.
        drift : bool, default=False
            Whether the stream has just changed, so that the reference is outdated.
        """
        self._follow(self.sample(rows, trainer, counts).seen, trainer, drift)

    def add_row(self, row: npt.NDArray[Any], trainer: Trainer, *, drift: bool = False) -> bool:
        """Take in one row (1, D) that was just learned; return whether the reference may have changed.

        Parameters
        ----------
        row : array of shape (1, D)
            The row, in the float type of the trainer, with at least one value.
        trainer : Trainer
            What has learned it.
        drift : bool, default=False
            As for ``add``.
        """
        if self.reservoir is None:
            self.sample(row, trainer)
        else:
            self.reservoir.add_row(row)
        assert self.reservoir is not None
        return self._follow(self.reservoir.seen, trainer, drift)

    def _follow(self, seen: int, trainer: Trainer, drift: bool) -> bool:
        """Score the reference anew if that is due after so many rows; return whether it may have changed."""
        if drift:
            self._due = seen
        if seen % STEP:
            return False
        self._snapshot = {}
        if seen >= self._due:
            self.calibrate(trainer)
        return True

    def sample(
        self, rows: npt.NDArray[Any], trainer: Trainer, counts: npt.NDArray[np.float64] | None = None
    ) -> Reservoir:
        """Take rows into the sample without scoring it."""
        if self.reservoir is None:
            size = sum(value.nbytes for value in trainer.parameters.tensors.named().values())
            most = reservoir_size(trainer.n_features, trainer.dtype, size)
            self.reservoir = Reservoir(most, trainer.rule.memory)
        known = rows_with_values(rows)
        if not known.all():
            counts = known.astype(np.float64) if counts is None else counts * known
        self.reservoir.add(rows.astype(trainer.dtype, copy=False), counts)
        return self.reservoir

    def calibrate(self, trainer: Trainer) -> None:
        """Score the sample under the current model, once annealing is over.

        Parameters
        ----------
        trainer : Trainer
            The current model.
        """
        if self.reservoir is None:
            return
        self._postpone(self.reservoir)
        self._snapshot = {}
        if trainer.annealed and len(self.reservoir):
            trainer.settle()
            scores = self._optimism.without(
                self._scored(self.reservoir, trainer), self.reservoir.seen, self.reservoir.memory
            )
            self.reference = Reference.of(scores, caution=self.reference.caution)

    def _scored(self, reservoir: Reservoir, trainer: Trainer) -> npt.NDArray[np.float64]:
        return trainer.mixture.log_prob(fill_gaps(trainer.mixture, reservoir.rows))

    def _postpone(self, reservoir: Reservoir) -> None:
        self._due = reservoir.seen + max(STEP, int(min(reservoir.seen, reservoir.memory)) // GROWTH)

    def calibrate_on(
        self,
        rows: npt.NDArray[Any],
        trainer: Trainer,
        counts: npt.NDArray[np.float64] | None = None,
        learned: npt.NDArray[np.float64] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Take the reference from all rows of a finished training; return their scores, (N,).

        After refinement these are the scores of a model that has not learned them ([E31]).

        Parameters
        ----------
        rows : array of shape (N, D)
            All rows, as floats.
        trainer : Trainer
            What has learned them.
        counts : array of shape (N,) or None, default=None
            How often each counts.
        learned : array of shape (N,) or None, default=None
            How often each was learned, if that differs.
        """
        learned = counts if learned is None else learned
        if self.reservoir is not None:
            self._postpone(self.reservoir)
        self._snapshot, whole = {}, fill_gaps(trainer.mixture, rows)
        self._optimism = NONE
        if not trainer.refined:
            step = -(-len(rows) // max(1000, MOST_SCORED // rows.shape[1]))
            weights = None if counts is None else counts[::step]
            self.reference = Reference.of(trainer.mixture.log_prob(whole[::step]), weights)
            return trainer.mixture.log_prob(rows)
        parts, scores, caution = self._judged_from_afar(whole, trainer, learned)
        self.reference = Reference.of(scores, counts, caution)
        if self.reservoir is not None and len(self.reservoir):
            self._optimism = Optimism.of(self._scored(self.reservoir, trainer), self.reference, self.reservoir.seen)
        return scores if whole is rows else trainer.cross_validated_scores(rows, learned, parts)

    def _judged_from_afar(
        self, rows: npt.NDArray[Any], trainer: Trainer, learned: npt.NDArray[np.float64] | None
    ) -> tuple[int, npt.NDArray[np.float64], float]:
        """[E31] Score rows, leaving out the longest blocks that the rest can explain; return parts and caution, too."""
        near = trainer.cross_validated_scores(rows, learned)
        for parts in FAR_PARTS:
            far = trainer.cross_validated_scores(rows, learned, parts)
            if (far < np.quantile(near, RARE)).mean() <= MOST_NEW:  # rows to come may stray as much farther again
                caution = CAUTION * _width(far) / max(_width(near), np.finfo(np.float64).tiny)
                return parts, far, min(max(caution, CAUTION), MOST_CAUTION)
        return PARTS, near, CAUTION

    def tensors(self, rows: bool = True) -> dict[str, npt.NDArray[Any]]:
        """Return everything as arrays, for a file; without ``rows`` scores alone.

        Parameters
        ----------
        rows : bool, default=True
            Whether to return rows of the stream.
        """
        found = {
            "reference.scores": self.reference.scores,
            "reference.shares": self.reference.shares,
            "reference.caution": np.array(self.reference.caution),
            "reference.due": np.array(self._due),
            **{f"snapshot.{name}": value for name, value in self._snapshot.items()},
        }
        if not rows:
            return found
        if self._optimism.seen:  # without these rows it would lower the scores of others
            found |= self._optimism.tensors()
        if self.reservoir is not None:
            found |= {f"reservoir.{name}": value for name, value in self.reservoir.tensors().items()}
        strange = self.strangest
        if any(value is not None for value in strange.ids):
            found["row_ids"] = np.frombuffer(json.dumps(strange.ids).encode(), np.uint8)
        return found | {
            "rows": strange.rows,
            "row_scores": strange.scores,
            "row_numbers": strange.numbers,
            "row_times": strange.times,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]], n_features: int) -> Monitor:
        """Return the monitor that ``tensors`` describe; raise ValueError or KeyError if they are damaged."""
        self = cls()
        if "scores" in tensors:  # streamgmm 0.1 kept a sketch of scores
            self.reference = reference_of_digests(tensors["scores"].tobytes(), tensors["scores_before"].tobytes())
            self._due = MOST_ROWS
        else:
            caution = float(tensors.get("reference.caution", CAUTION))  # which the first files do not have
            require_range("monitor.reference.caution", caution, 1.0, MOST_CAUTION)
            self.reference = _checked(Reference(tensors["reference.scores"], tensors["reference.shares"], caution))
            self._due = int(tensors["reference.due"])
            require_range("monitor.reference.due", self._due, 0)
        self._optimism = Optimism.from_tensors(tensors)
        self._snapshot = {n.removeprefix("snapshot."): v for n, v in tensors.items() if n.startswith("snapshot.")}
        if "reservoir.rows" in tensors:
            self.reservoir = Reservoir.from_tensors(tensors["reservoir.rows"], tensors["reservoir.numbers"])
            _require_width("reservoir.rows", tensors["reservoir.rows"], n_features)
        if "rows" in tensors:
            strange = self.strangest
            strange.rows, strange.scores = tensors["rows"], tensors["row_scores"]
            strange.numbers, strange.times = tensors["row_numbers"], tensors["row_times"]
            _require_width("rows", strange.rows, n_features)
            shapes = {strange.scores.shape, strange.numbers.shape, strange.times.shape}
            if shapes != {(len(strange.rows),)} or len(strange.rows) > MOST_STRANGE:
                raise ValueError("the strangest rows and their scores differ in number")
            if strange.numbers.dtype.kind != "i" or strange.times.dtype.kind != "i":
                raise ValueError("the numbers of the strangest rows are not integers")
            require_range("monitor.row_numbers", strange.numbers, 0)
            require_range("monitor.row_times", strange.times, 0)
            strange.ids = ids_of_tensors(tensors, len(strange.rows))
        return self


def _width(scores: npt.NDArray[np.float64]) -> float:
    low, high = np.quantile(scores, BULK)
    return float(high - low)


def ids_of_tensors(tensors: Mapping[str, npt.NDArray[Any]], count: int) -> list[PlainId]:
    """Return the ids of the strangest rows, None where there are none; raise ValueError if they are damaged.

    Parameters
    ----------
    tensors : mapping of str to array
        What ``Monitor.tensors`` returned.
    count : int
        Number of the rows.
    """
    if "row_ids" not in tensors:
        return [None] * count
    ids = json.loads(tensors["row_ids"].tobytes())
    if not isinstance(ids, list) or len(ids) != count or not all(map(is_plain_id, ids)):
        raise ValueError("the ids of the strangest rows are not a list of as many texts and numbers")
    return ids


def _require_width(name: str, rows: npt.NDArray[Any], n_features: int) -> None:
    width = n_features if rows.size else rows.shape[-1]  # the first rows decide on it
    if rows.ndim != 2 or rows.shape[1] != width or rows.dtype.kind != "f":
        raise ValueError(f"tensor 'monitor.{name}' is {rows.dtype} {rows.shape}; expected (rows, {n_features})")


def _checked(reference: Reference) -> Reference:
    scores, shares = reference.scores, reference.shares
    same = scores.ndim == 1 and scores.shape == shares.shape and scores.dtype == shares.dtype == np.float64
    if not same or (np.diff(scores) < 0).any() or (np.diff(shares) < 0).any() or ((shares <= 0) | (shares > 1)).any():
        raise ValueError(
            "the scores of typical rows are not in increasing order, or their shares are not within (0, 1]"
        )
    return reference
