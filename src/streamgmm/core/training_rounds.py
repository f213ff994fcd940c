"""Rounds of a training that replicas learn elsewhere: how one begins, how long it is, and how it ends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from streamgmm.core.control import Check
from streamgmm.core.covariance import Bounds
from streamgmm.core.engine import Merging, Replica, Round, merge_replicas, one_after_another
from streamgmm.core.rounds import LearnedShare, RoundStart, learned_replicas, reports_in_order
from streamgmm.core.rules import Context
from streamgmm.core.settings import Settings
from streamgmm.core.standardisation import Standardisation
from streamgmm.core.training_view import TrainingView

UNLIMITED = 1 << 60  # samples


class TrainingRounds(TrainingView):
    """The part of a `Trainer` that any engine can call, here or on a cluster."""

    n_skipped: int
    _bounds: Bounds

    @abstractmethod
    def _learn_first_rows(self) -> list[Check]: ...

    @abstractmethod
    def _learn_pending(self) -> list[Check]: ...

    @abstractmethod
    def _end_round(self) -> None: ...

    @abstractmethod
    def _check(self) -> Check: ...

    @abstractmethod
    def _check_rule(self, context: Context) -> bool: ...

    @abstractmethod
    def _respond_to_drift(self) -> None: ...

    @abstractmethod
    def _without_inits(self) -> Settings: ...

    @property
    def bounds(self) -> Bounds:
        """Bounds of scales."""
        return self._bounds

    def replica_from(self, tensors: Mapping[str, npt.NDArray[Any]]) -> Replica:
        """Return a replica with these tensors, in the form that this training has.

        Parameters
        ----------
        tensors : dict of str to ndarray
            Tensors of a ``RoundStart``.
        """
        replica = self._main.restored(tensors)
        self.validate_bounds([replica])
        return replica

    def validate_bounds(self, replicas: Sequence[Replica]) -> None:
        """Raise ValueError for scales that no step of this training gives, as a damaged file may hold.

        Parameters
        ----------
        replicas : sequence of Replica
            What was restored from a file or a message.
        """
        for replica in replicas:
            replica.parameters.kind.validate_bounds(replica.parameters, self._bounds)

    def require_restorable(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Raise an exception for tensors that could not be restored, as those of a training that has lost its way.

        Parameters
        ----------
        tensors : mapping of str to array
            What ``tensors`` has returned.
        """
        main, _ = self._restored_replicas(tensors)
        if self._standard is not None:
            Standardisation(self.n_features, self.dtype, self.rule).restore(tensors, main)

    def _restored_replicas(self, tensors: Mapping[str, npt.NDArray[Any]]) -> tuple[Replica, Any]:
        """Return the replica and the state of the engine that tensors describe; raise an exception if damaged."""
        main = self._main.restored(tensors)
        own = {n.removeprefix("engine."): v for n, v in tensors.items() if n.startswith("engine.")}
        state = self.engine.restored(main, own)
        self.validate_bounds([main, *self.engine.own_replicas(state)])
        return main, state

    def samples_in_round(self, wanted: int) -> int:
        """Return how many samples the next round should have: it ends at a check, and no later than a rule allows.

        Parameters
        ----------
        wanted : int
            Samples that make a round long enough; it ends at the next check.
        """
        samples, period, size = self._control.samples, self.schedule.period, self.batch_size
        check = samples // period + 1
        if self.rule.can_wait(self._main.state, self._context()):
            longest = min(wanted, int(min(self.rule.memory / 4, UNLIMITED)))  # replicas must not forget the start
            check = max(check, (samples + (-(-longest // size) - 1) * size) // period + 1)
        return -(-(check * period - samples) // size) * size

    def begin_round(self, replicas: int) -> RoundStart:
        """Begin a round that replicas learn elsewhere; ``merge_round`` ends it.

        A rule that cannot be split for now gives a round of one replica. Rows that wait for their batch, or for the
        first frame, are learned before.

        Parameters
        ----------
        replicas : int
            Number of replicas.
        """
        if replicas < 1:
            raise ValueError(f"replicas is {replicas}; expected at least 1.")
        self._learn_first_rows()
        self._learn_pending()
        self._end_round()
        if self.warming_up:
            raise ValueError("the scale of the features is not known yet; let the training learn some rows first.")
        facts = {
            "settings": self._without_inits().facts(),
            "n_features": self.n_features,
            "dtype": self.dtype.name,
            "replicas": replicas if self.rule.can_split(self._main.state) else 1,
            "round": self._control.samples,
            "n_samples": self._control.samples,
            "period": self.schedule.period,
            "sigma": self.sigma,
            "every": 1 if self._standard is None else self._standard.turn(0).every,
        }
        return RoundStart(facts, self._main.copy().named())

    def merge_round(
        self, start: RoundStart, learned: Sequence[LearnedShare], run: Merging = one_after_another
    ) -> list[Check]:
        """Merge what replicas have learned in a round, and return the checks that fell due.

        Checks within a round report; what else they do is done once, at its end.

        Parameters
        ----------
        start : RoundStart
            Where the round started.
        learned : sequence of LearnedShare
            The shares of all replicas, in any order.
        run : callable, default=one_after_another
            How to merge parts of the components, for example on several threads.
        """
        if start.facts["round"] != self._control.samples:
            raise ValueError("the training has learned since this round began; merge each round before the next one.")
        self._forget()
        self.refined = False
        shares = sorted(learned, key=lambda share: int(share.facts["replica"]))
        replicas = learned_replicas(self._main, start, shares)
        self.validate_bounds(replicas)
        taken = [share.steps for share in shares]
        if len(replicas) == 1:
            self._main.assign(replicas[0])
        elif sum(taken):
            before = self._main.copy()
            try:
                merge_replicas(self.rule, Round(before, replicas, taken, self._bounds), self._main, run)
            except BaseException:
                self._main.assign(before)
                raise
        self.n_skipped += sum(int(share.facts["skipped"]) for share in shares)
        checks, due, missed = list[Check](), False, False
        for steps, batch_size in reports_in_order(shares, self.batch_size):
            if due and self.annealed:
                checks.append(self._check_within_round())
            missed, due = missed or due, self._control.observe(steps, batch_size)
        if due or (missed and not checks):
            return [*checks, self._check()]
        if missed:
            self._check_rule(self._context())
        if any(check.drift for check in checks):
            self._respond_to_drift()
        return checks

    def _check_within_round(self) -> Check:
        shrunk = self._control.begin_check()
        changed = self._control.detect_drift(moved=False)
        return self._control.check(self.learning_rate, shrunk, changed, self._offset)
