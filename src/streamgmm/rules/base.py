"""What an update rule is: settings that never change, and functions on an explicit state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, fields
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.annealing import Schedule
from streamgmm.grid import Filters
from streamgmm.kernels import Parameters, Reading, Rows, Steps
from streamgmm.merging import Part, Round

RuleState = dict[str, npt.NDArray[Any]]
"""Everything that a rule remembers between steps, by name; it goes into a checkpoint as it is."""

ScaleBounds = tuple[float, float]


class Work(NamedTuple):
    """Whole batches of rows (N, D), and what stays the same while they are learned; bytes count times ``factor``."""

    x: Rows
    factor: float
    filters: Filters
    batch_size: int
    scale_bounds: ScaleBounds
    gaps: bool = False  # NaN marks features that a row does not have
    shares: npt.NDArray[np.float64] | None = None  # how much each row counts

    def reading(self, state: RuleState) -> Reading:
        """The rows as the loops take them."""
        return {
            "batch_size": self.batch_size,
            "factor": self.factor,
            "gaps": self.gaps,
            "shares": self.shares,
            "usual": state["usual"],
        }


def plain_numbers(rule: Any) -> None:
    """Makes settings floats and ints of Python, whatever a user gave: the state takes its types from them."""
    for setting in fields(rule):
        value = getattr(rule, setting.name)
        for kind in (float, int):
            if str(setting.type).startswith(kind.__name__) and value is not None:
                object.__setattr__(rule, setting.name, kind(value))


def nothing_usual() -> npt.NDArray[np.float64]:
    """[E20] what a rule knows of usual losses before the first sample; every rule's state has it as "usual"."""
    return np.zeros(3)


class Moment(NamedTuple):
    """The start of training, or the end of a period or of a pass, as a rule sees it."""

    samples: int
    sigma: float
    schedule: Schedule
    scale_bounds: ScaleBounds
    rng: np.random.Generator
    shrunk: bool = False

    @property
    def annealed(self) -> bool:
        """Whether σ has reached its minimum."""
        return self.sigma <= self.schedule.sigma_min


class Rule(ABC):
    """Turns samples into better parameters.

    A rule is a frozen dataclass of settings. The training loop owns the parameters and the rule's state, calls
    ``advance`` with samples up to the next check, then ``check``; all of them change both in place.
    """

    name: ClassVar[str]
    anneals: ClassVar[bool] = True
    tol: ClassVar[float | None] = 0.05
    drop_below: ClassVar[float] = 0.0
    varying: ClassVar[frozenset[str]] = frozenset()  # parts of the state whose shape changes as training goes on

    def period(self, n_components: int) -> int:
        """Samples between two checks where the user gives no number."""
        return 1000

    def first_sigma(self, widest: float, least: float) -> float:
        """The width of smoothing to begin with."""
        return widest if self.anneals else least

    @abstractmethod
    def start(self, parameters: Parameters, moment: Moment) -> RuleState:
        """The state before the first sample."""

    @abstractmethod
    def advance(self, state: RuleState, parameters: Parameters, work: Work) -> Steps:
        """Takes steps over whole batches of rows."""

    @abstractmethod
    def check(self, state: RuleState, parameters: Parameters, moment: Moment) -> bool:
        """Ends a period; says whether the rule has moved so many components that the loss may jump for that reason."""

    def flush(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        """Puts into the parameters what the rule has held back; most rules hold back nothing."""
        return

    def notice(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        """Hears that the stream has changed; what was learned before is to be kept."""
        return

    def reheat(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        """Makes ready to learn fast again, because the stream has changed and the past no longer counts."""
        return

    def settle(self, state: RuleState, parameters: Parameters, scale_bounds: ScaleBounds) -> None:
        """Makes the parameters show all that was learned; called before anybody looks."""
        return

    def waits(self, state: RuleState, moment: Moment) -> bool:
        """Whether this check may be left out, because nothing hangs on it: replicas then go on undisturbed."""
        return False

    def finished(self, state: RuleState, moment: Moment) -> bool:
        """Whether it has learned for so long that one may rely on the model."""
        return moment.annealed

    def splits(self, state: RuleState) -> bool:
        """Whether replicas may learn side by side now."""
        return True

    def one_of(self, replicas: int) -> Rule:
        """The rule as each of so many replicas follows it."""
        return self

    @property
    def memory(self) -> float:
        """Samples after which what was learned counts half; infinite if nothing is forgotten."""
        return float(getattr(self, "half_life", None) or inf)

    @abstractmethod
    def merge(self, done: Round, out: Part, rows: range) -> None:
        """Puts components ``rows`` of ``out`` to what all replicas of a round have learned together."""

    @abstractmethod
    def learning_rate(self, state: RuleState) -> float:
        """The rate in force, for reports."""

    def settings(self) -> dict[str, Any]:
        """The rule as plain data, for files."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]
