"""What is known of a training at any moment."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.annealing import Schedule
from streamgmm.core.batches import PartialBatch
from streamgmm.core.control import Check, Control
from streamgmm.core.engine import Engine, Replica
from streamgmm.core.mixture import Mixture
from streamgmm.core.parameters import Parameters
from streamgmm.core.refinement import PARTS
from streamgmm.core.rules import Context, Rule
from streamgmm.core.settings import Settings
from streamgmm.core.standardisation import Standardisation
from streamgmm.native import Rows

KEPT = (
    "_answer",
    "_row_answer",
    "_row_answer_holds",
    "_row_steps",
    "_row_steps_use",
)  # to save time, until the training changes


class TrainingView(ABC):
    """The figures of a `Trainer`, which learns; nothing here changes anything."""

    settings: Settings
    engine: Engine
    rule: Rule[Any]
    _main: Replica
    _control: Control
    _engine_state: Any
    _pending: PartialBatch
    _standard: Standardisation | None
    _answer: Mixture | None = None  # until the training changes
    _row_answer: Mixture | None = None  # the same for single rows: nobody else sees it, and it is written to
    _row_answer_holds: bool = False
    _row_steps: Any = None  # prepared steps of single rows; None if there are none yet, False if there never are any
    _row_steps_use: tuple[Any, ...] = ()  # what they were prepared with

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in KEPT}

    def _forget(self) -> None:
        """Drop what no longer holds, because the training changes."""
        self._answer = self._row_answer = None
        if self._row_steps:
            self._row_steps = None

    def _context(self, shrunk: bool = False) -> Context:
        """What a rule may look at."""
        raise NotImplementedError

    @property
    def parameters(self) -> Parameters:
        """Live parameters, in units of deviations with ``scale="auto"``; they show everything after ``settle``."""
        return self._main.parameters

    @property
    def mixture(self) -> Mixture:
        """A view of the live parameters, in the units of the rows. Use it immediately: training changes it."""
        if self._answer is None:
            if self._standard is None:
                self._answer = Mixture.view(self._main.parameters)
            else:
                answer = self._standard.answer(self._main, self._context())
                self._answer = Mixture.view(answer, self._standard.constants)
        return self._answer

    @property
    def frozen(self) -> Mixture:
        """The mixture of this moment, in the units of the rows; training never changes it."""
        return self.mixture.copy() if self._standard is None else self.mixture

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return the mixture, in the units of the rows, as arrays that do not change any more."""
        if self._standard is None:
            now, constants = self._main.parameters, None
        else:
            now, constants = self._standard.answer(self._main, self._context()), self._standard.constants
        arrays = {**now.tensors.named(), "logits": now.logits}
        arrays |= {} if constants is None else {"constants": constants}
        return {name: value.copy() for name, value in arrays.items()}

    def mixture_of(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> Mixture:
        """Return the mixture that a snapshot holds.

        Parameters
        ----------
        snapshot : mapping of str to array
            What ``snapshot`` returned, now or before a file was written.
        """
        return Mixture.view(self._parameters_of(snapshot), snapshot.get("constants"))

    def _parameters_of(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> Parameters:
        tensors = {name: value for name, value in snapshot.items() if name not in ("logits", "constants")}
        return Parameters(self.parameters.kind, tensors, snapshot["logits"])

    def check_snapshot(self, snapshot: Mapping[str, npt.NDArray[Any]]) -> None:
        """Raise ValueError or KeyError for a snapshot that this training cannot have made, as a damaged file may hold.

        Parameters
        ----------
        snapshot : mapping of str to array
            Arrays by name.
        """
        own, constants = self.parameters, snapshot.get("constants")
        for name, value in {**own.tensors.named(), "logits": own.logits}.items():
            if snapshot[name].shape != value.shape or snapshot[name].dtype != value.dtype:
                raise ValueError(f"the snapshot has {name} of shape {snapshot[name].shape}; expected {value.shape}")
        if constants is not None and (constants.shape != (self.n_features,) or constants.dtype != np.float64):
            raise ValueError(f"the snapshot has constants of shape {constants.shape}; expected ({self.n_features},)")
        if not np.isfinite(self._parameters_of(snapshot).log_dets).all():
            raise ValueError("the snapshot holds numbers that no covariance has")

    def cross_validated_scores(
        self, rows: Rows, counts: npt.NDArray[np.float64] | None = None, parts: int = PARTS
    ) -> npt.NDArray[np.float64]:
        """Return the log-likelihood that rows would have if they had not been learned, after refinement: (N,).

        Where that is not known, return the log-likelihood that they have.

        Parameters
        ----------
        rows : array of shape (N, D)
            All rows, on which the model was refined.
        counts : array of shape (N,) or None, default=None
            How often each counts.
        parts : int, default=100
            Into how many parts a long file is cut; the rows of a part are left out together.
        """
        scores = self.mixture.scores(rows).log_likelihood
        if self._standard is None:
            return scores
        lost = self._standard.cross_validated_losses(self._main, rows, counts, parts)
        return scores if lost is None else scores - lost

    @property
    def batch_size(self) -> int:
        """Samples per step."""
        return int(self.settings.batch_size)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.parameters)

    @property
    def n_features(self) -> int:
        """Width of a sample."""
        return self.parameters.n_features

    @property
    def n_numbers(self) -> int:
        """Numbers in means and covariances, which tell what a pass over rows costs."""
        return self.parameters.kind.n_parameters(self.n_components, self.n_features)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float type of the parameters."""
        return self.parameters.dtype

    @property
    def n_samples(self) -> int:
        """Samples received, including those of an incomplete batch."""
        waiting = 0 if self._standard is None else len(self._standard)
        return self._control.samples + len(self._pending) + waiting

    @property
    def n_pending(self) -> int:
        """Samples that wait for the rest of their batch."""
        return len(self._pending)

    @property
    def schedule(self) -> Schedule:
        """Settings of the annealing."""
        return self._control.schedule

    @property
    def sigma(self) -> float:
        """Width of the annealing."""
        return self._control.sigma

    @property
    def warming_up(self) -> bool:
        """Whether rows still wait for the first frame, so that no round can begin."""
        return self._standard is not None and self._standard.warming_up

    @property
    def annealed(self) -> bool:
        """Whether σ has reached its minimum."""
        return self.sigma <= self.schedule.sigma_min

    @property
    def learning_rate(self) -> float:
        """The rule's current learning rate."""
        return self.engine.learning_rate(self.rule, self._main, self._engine_state)

    @property
    def live(self) -> int:
        """Components that win at least a tenth of an even share of recent samples."""
        return self._control.live

    @property
    def usage(self) -> npt.NDArray[np.float64]:
        """Share of recent samples that each component has won, (K,)."""
        return self._control.usage.copy()

    @property
    def finished(self) -> bool:
        """Whether training has lasted long enough for the model to be reliable."""
        return self.rule.finished(self._main.state, self._context())

    @property
    def typical_loss(self) -> tuple[float, float]:
        """Level and deviation of recent losses ([E20])."""
        _, level, deviation, *_ = self._main.typical_loss.tolist()
        return level, deviation

    @property
    def n_damped(self) -> int:
        """Samples whose influence was reduced because they were extreme ([E20]); each pass counts them again."""
        return int(self._main.typical_loss[4])

    @property
    def offset(self) -> float:
        """What log-likelihoods of samples gain when they are expressed for rows."""
        return self._offset

    def current(self) -> Check:
        """Return the current figures in the form of a check."""
        return self._control.check(self.learning_rate, shrunk=False, drift=False, offset=self._offset)

    @property
    def _offset(self) -> float:
        """What log-likelihoods of samples gain when they are expressed for rows."""
        return 0.0 if self._standard is None else self._standard.offset
