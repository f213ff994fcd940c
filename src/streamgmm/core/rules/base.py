"""What an update rule is: settings that never change, and methods on an explicit state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from streamgmm.core.covariance import Bounds, Covariance, Work
from streamgmm.core.engine import Replica, Round
from streamgmm.core.parameters import Parameters
from streamgmm.core.rules.context import Context
from streamgmm.core.rules.merging import average_parameters
from streamgmm.core.state import State
from streamgmm.core.tensors import bound_means
from streamgmm.native import Floats, Steps

S = TypeVar("S", bound=State)


class Rule(ABC, Generic[S]):
    """How samples change parameters.

    Subclass it as a frozen dataclass of settings and register it with `register_rule`. A rule needs a ``name`` and
    three methods: ``start`` makes its state, ``advance`` takes steps, and ``learning_rate`` reports the current rate.
    The trainer owns parameters and state, calls ``advance`` with samples up to the next check, and then ``check``;
    both change parameters and state in place. Steps themselves belong to the covariance kind, ``parameters.kind``.

    Examples
    --------
    A rule that moves each winner by a constant share of the way:

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from streamgmm import Rule, StreamingGaussianMixture, register_rule
    >>> from streamgmm.core.rules import MomentState
    >>> from streamgmm.native import NaturalStep
    >>> @register_rule
    ... @dataclass(frozen=True)
    ... class ConstantRate(Rule):
    ...     name = "constant-rate"
    ...     rate: float = 0.02
    ...     def start(self, parameters, context):
    ...         return MomentState.of(parameters, count=1 / self.rate)
    ...     def advance(self, state, parameters, work):
    ...         step = NaturalStep(growth=0.0, count_max=1 / self.rate, scale_bounds=work.bounds)
    ...         own = (state.moments, state.counts, state.received)
    ...         return parameters.kind.natural_steps(parameters, *own, work, step)
    ...     def learning_rate(self, state):
    ...         return self.rate
    >>> x = np.random.default_rng(0).normal(0.5, 0.3, (5000, 2))
    >>> model = StreamingGaussianMixture(2, rule="constant-rate", random_state=0).partial_fit(x)
    >>> model.learning_rate_, bool(model.score(x) > -1)
    (0.02, True)
    """

    name: ClassVar[str]
    required_steps: ClassVar[str] = "natural_steps"  # what the covariance kind must implement
    anneals: ClassVar[bool] = True
    tol: ClassVar[float | None] = 0.05
    drop_below: ClassVar[float] = 0.0
    baseline: str = "mean"  # see Schedule
    scaled_steps: bool = False  # whether replicas take larger steps, as they take fewer; else periods grow
    has_prior: ClassVar[bool] = False  # whether its state is a RegularisedState
    refines: ClassVar[bool] = False  # whether it implements ``refine``
    reg_covar: float = 0.0  # added to variances, as a share of those within components, where samples are standardised

    @abstractmethod
    def start(self, parameters: Parameters, context: Context) -> S:
        """Return the state before the first sample.

        Parameters
        ----------
        parameters : Parameters
            Parameters to start from.
        context : Context
            Where training stands.
        """

    @abstractmethod
    def advance(self, state: S, parameters: Parameters, work: Work) -> Steps:
        """Take steps over whole batches of samples.

        Parameters
        ----------
        state : State
            What the rule remembers; changed in place.
        parameters : Parameters
            Parameters of the mixture; changed in place.
        work : Work
            Samples, filters of the grid and bounds.
        """

    def prepare(self, state: S, parameters: Parameters, work: Work) -> Any:
        """Prepare steps of one row each, with ``work.tally``; None if the rule cannot.

        Parameters
        ----------
        state, parameters : State, Parameters
            The rule's state, and the parameters.
        work : Work
            What stays the same from check to check, without rows.
        """
        return None

    def renew(self, state: S, steps: Any) -> bool:
        """Adapt prepared steps after a check that has left sizes, arrays and σ as they were; False if it cannot.

        Parameters
        ----------
        state, steps : State, object
            The rule's state, and what ``prepare`` returned.
        """
        return False

    @abstractmethod
    def learning_rate(self, state: S) -> float:
        """Return the current rate, for reports.

        Parameters
        ----------
        state : State
            What the rule remembers.
        """

    def check(self, state: S, parameters: Parameters, context: Context) -> bool:
        """End a period; return whether the rule moved so many components that the loss may jump for that reason.

        Parameters
        ----------
        state : State
            What the rule remembers; changed in place.
        parameters : Parameters
            Parameters of the mixture; changed in place.
        context : Context
            Where training stands.
        """
        return False

    def flush(self, state: S, parameters: Parameters, context: Context) -> None:
        """Put into the parameters what the rule has held back; most rules hold back nothing.

        Parameters
        ----------
        state : State
            What the rule remembers; changed in place.
        parameters : Parameters
            Parameters of the mixture; changed in place.
        context : Context
            Where training stands.
        """
        return

    def on_drift(self, state: S, parameters: Parameters, context: Context) -> None:
        """Called on drift when past data still count.

        Parameters
        ----------
        state : State
            What the rule remembers; changed in place.
        parameters : Parameters
            Parameters of the mixture; changed in place.
        context : Context
            Where training stands.
        """
        return

    def reheat(self, state: S, parameters: Parameters, context: Context) -> None:
        """Called on drift when the annealing is widened again: past data no longer count, so learn fast.

        Parameters
        ----------
        state : State
            What the rule remembers; changed in place.
        parameters : Parameters
            Parameters of the mixture; changed in place.
        context : Context
            Where training stands.
        """
        return

    def on_new_features(self, state: S) -> None:
        """Called when the model was widened by features that no component knows yet.

        Parameters
        ----------
        state : State
            What the rule remembers; changed in place.
        """
        return

    def period(self, n_components: int) -> int:
        """Samples between two checks unless the user gives a number.

        Parameters
        ----------
        n_components : int
            Number of components.
        """
        return 1000

    def first_sigma(self, widest: float, least: float) -> float:
        """Width of the smoothing to start with.

        Parameters
        ----------
        widest : float
            Width that the grid or the user suggests.
        least : float
            Width at which annealing ends.
        """
        return widest if self.anneals else least

    def can_wait(self, state: S, context: Context) -> bool:
        """Whether this check may be skipped, because nothing depends on it: replicas then continue undisturbed.

        Parameters
        ----------
        state : State
            What the rule remembers.
        context : Context
            Where training stands.
        """
        return False

    def finished(self, state: S, context: Context) -> bool:
        """Whether training has lasted long enough for the model to be reliable.

        Parameters
        ----------
        state : State
            What the rule remembers.
        context : Context
            Where training stands.
        """
        return context.annealed

    def can_split(self, state: S) -> bool:
        """Whether replicas may learn in parallel now.

        Parameters
        ----------
        state : State
            What the rule remembers.
        """
        return True

    def for_replicas(self, count: int) -> Rule[S]:
        """Return the rule as each of ``count`` replicas follows it.

        Parameters
        ----------
        count : int
            Number of replicas.
        """
        return self

    @property
    def memory(self) -> float:
        """Half-life of past data in samples; infinite if nothing is forgotten."""
        return inf

    def holds_scales(self, state: S) -> bool:
        """Return whether scales are a choice of the rule for now, not an estimate.

        Parameters
        ----------
        state : State
            What the rule remembers.
        """
        return False

    def set_covariances(self, state: S, parameters: Parameters, context: Context) -> bool:
        """Set the covariances that components really have; return False while the rule does not know them.

        Parameters
        ----------
        state : State
            What the rule remembers.
        parameters : Parameters
            Parameters of the mixture; changed in place.
        context : Context
            Where training stands.
        """
        return context.annealed

    def answer(self, state: S, parameters: Parameters, frame: Floats, bounds: Bounds, out: Parameters) -> bool:
        """Set ``out`` to what the model answers with, in the units of the rows; return False if the rule cannot.

        Then the trainer does it: it copies the parameters, calls ``set_covariances`` and takes them out of the frame.

        Parameters
        ----------
        state : State
            The rule's state.
        parameters : Parameters
            The parameters of samples.
        frame : array of shape (12, D)
            Location and unit of each feature; see ``Samples``.
        bounds : Bounds
            Bounds of scales.
        out : Parameters
            Parameters of the same shape, to be overwritten.
        """
        return False

    def restarted(self, state: S, parameters: Parameters) -> S:
        """Return the state for other parameters to start from.

        Parameters
        ----------
        state, parameters : State, Parameters
            What the rule remembers, and the parameters to start from.
        """
        return state

    def reframed(self, state: S, kind: Covariance, shift: Any, factor: Any) -> S:
        """[E23] Return the state for samples that became (z − shift)·factor; its tensors are moved in place.

        Parameters
        ----------
        state : State
            What the rule remembers.
        kind : Covariance
            The covariance kind of its tensors.
        shift, factor : arrays of shape (D,)
            The map of each feature.
        """
        return state.map_tensors(lambda tensors: bound_means(kind.reframe(tensors, shift, factor)))

    def refine(self, state: S, parameters: Parameters, samples: Any, counts: Any, bounds: Bounds) -> bool:
        """Iterate EM on all samples of a finished training; return whether the rule can.

        Parameters
        ----------
        state : State
            What the rule remembers; changed in place.
        parameters : Parameters
            Parameters of the mixture; changed in place.
        samples : array of shape (N, D)
            All samples that were learned.
        counts : array of shape (N,) or None
            How often each counts.
        bounds : Bounds
            Bounds of scales.
        """
        return False

    @property
    def supports_gaps(self) -> bool:
        """Whether samples may have gaps."""
        return True

    @classmethod
    def with_rates(cls, learning_rate_init: float, learning_rate_min: float) -> Rule[S]:
        """Return the rule with the learning rates of the estimator, which most rules do not have.

        Parameters
        ----------
        learning_rate_init : float
            Learning rate at the start.
        learning_rate_min : float
            Smallest learning rate.
        """
        return cls()

    def with_half_life(self, half_life: float) -> Rule[S]:
        """Return the rule with a half-life of past data; raise ValueError if it cannot forget.

        Parameters
        ----------
        half_life : float
            Half-life in samples.
        """
        raise ValueError(f"rule={self.name!r} does not support half_life; use rule='natural'.")

    def merge(self, done: Round, out: Replica, rows: range) -> None:
        """Set components ``rows`` of ``out`` to what all replicas of a round have learned together.

        The default averages parameters and state over the steps taken. Fields with the metadata ``SUMS`` and integers
        add up what each replica added; other numbers come from the replica that has taken the most steps.

        Parameters
        ----------
        done : Round
            The round: its start, and the state of each replica at its end.
        out : Replica
            Where to write the result.
        rows : range
            Components to merge; threads share them out.
        """
        average_parameters(done, out, rows)
        states = [replica.state for replica in done.replicas]
        out.state.merge(done.start.state, states, done.taken, slice(rows.start, rows.stop))

    def settings(self) -> dict[str, Any]:
        """Return the rule as plain data, for files."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]
