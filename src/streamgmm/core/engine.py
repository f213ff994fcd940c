"""What an engine is: it decides where the steps of a rule run, on one replica or on several that are merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.annealing import FARTHEST
from streamgmm.core.covariance import Bounds, Work
from streamgmm.core.frame import validate_values
from streamgmm.core.parameters import Parameters
from streamgmm.core.state import Named, State, require_range
from streamgmm.core.tensors import EVERY
from streamgmm.native import FRAME_ROWS, FRAME_SUMS, TYPICAL_NUMBERS, Floats, Steps, aligned_copy

if TYPE_CHECKING:
    from streamgmm.core.rules.base import Rule
    from streamgmm.core.rules.context import Context

LARGEST_SAMPLE = {"f": 1e18, "d": 1e150}  # squares must stay finite


@dataclass
class Replica:
    """All that steps change: parameters, the state of a rule, the typical loss and the frame (see `Samples`)."""

    parameters: Parameters
    state: State
    typical_loss: npt.NDArray[np.float64]
    frame: Floats | None = None

    def __setstate__(self, values: dict[str, Any]) -> None:
        vars(self).update(values, typical_loss=aligned_copy(values["typical_loss"]))
        self.frame = None if self.frame is None else aligned_copy(self.frame)

    def copy(self) -> Replica:
        """Copy everything to memory of its own."""
        frame = None if self.frame is None else aligned_copy(self.frame)
        return Replica(self.parameters.copy(), self.state.copy(), self.typical_loss.copy(), frame)

    def assign(self, other: Replica, rows: slice = EVERY) -> None:
        """Overwrite all values with those of another replica; tensors of some components only, so threads can share."""
        self.parameters.assign(other.parameters, rows)
        self.state.assign(other.state, rows)
        np.copyto(self.typical_loss, other.typical_loss)
        self.frame = None if other.frame is None else aligned_copy(other.frame)

    def named(self) -> Named:
        """Return every tensor by name, for a file."""
        tensors = {f"parameters.{name}": value for name, value in self.parameters.tensors.named().items()}
        states = {f"rule.{name}": value for name, value in self.state.named().items()}
        frame = {} if self.frame is None else {"frame": self.frame}
        others = {"parameters.logits": self.parameters.logits, "typical_loss": self.typical_loss, **frame}
        return {**tensors, **states, **others}

    def restored(self, named: Mapping[str, npt.NDArray[Any]]) -> Replica:
        """Return a replica like this one with the values of ``named``; raise an exception if they do not fit."""
        values = {name: named[f"parameters.{name}"] for name in self.parameters.tensors.layout}
        parameters = Parameters(self.parameters.kind, values, named["parameters.logits"])
        if parameters.means.shape != self.parameters.means.shape or parameters.dtype != self.parameters.dtype:
            raise ValueError(f"means have shape {parameters.means.shape}; expected {self.parameters.means.shape}")
        parameters.kind.validate(parameters)
        own = {name.removeprefix("rule."): value for name, value in named.items() if name.startswith("rule.")}
        if named["typical_loss"].shape != (TYPICAL_NUMBERS,):
            found = named["typical_loss"].shape
            raise ValueError(f"tensor 'typical_loss' has shape {found}; expected ({TYPICAL_NUMBERS},)")
        typical = aligned_copy(named["typical_loss"].astype(np.float64))
        frame = named.get("frame")
        if frame is not None and (
            frame.shape != (FRAME_ROWS, parameters.n_features) or frame.dtype != parameters.dtype
        ):
            raise ValueError(
                f"tensor 'frame' is {frame.dtype} {frame.shape}; expected {FRAME_ROWS, parameters.n_features}"
            )
        if frame is not None:
            validate_values(frame)
            most = LARGEST_SAMPLE[parameters.dtype.char]
            require_range("means, in units of the frame", parameters.means, -most, most)
        require_range("typical_loss", np.delete(typical, 1), 0.0, FARTHEST)
        require_range("typical_loss", typical[1], -FARTHEST, FARTHEST)
        state = self.state.restored(own)
        state.validate(parameters)
        return Replica(parameters, state, typical, None if frame is None else aligned_copy(frame))


class Round(NamedTuple):
    """A finished round: where it started, the state of each replica, and how many steps each has taken."""

    start: Replica
    replicas: list[Replica]
    taken: list[int]
    bounds: Bounds

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of all steps that each replica has taken, (R,)."""
        return np.array(self.taken) / sum(self.taken)

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """Return a field of the rule's state, one number per component and replica: (K, R)."""
        return np.stack([getattr(r.state, name) for r in self.replicas], axis=1)


Merging = Callable[[Callable[[range], None], list[range]], object]
"""Calls a function for each of some ranges of components, in any order or at the same time."""


def one_after_another(merge: Callable[[range], None], ranges: list[range]) -> None:
    """Merge all components on the calling thread."""
    for rows in ranges:
        merge(rows)


def ranges_of(components: Sized, parts: int) -> list[range]:
    """Cut components into ranges of about the same size."""
    cuts = [len(components) * i // parts for i in range(parts + 1)]
    return [range(*cut) for cut in pairwise(cuts)]


def merge_replicas(rule: Rule[Any], done: Round, out: Replica, run: Merging = one_after_another) -> None:
    """Set ``out`` to what all replicas of a round have learned together.

    The ranges follow from the number of replicas, because sums may depend on the range in their last bit.
    """
    run(lambda rows: rule.merge(done, out, rows), ranges_of(out.parameters, len(done.replicas)))
    typical, damped = [r.typical_loss for r in done.replicas], done.start.typical_loss[4]
    out.typical_loss[:] = np.mean(typical, axis=0)
    out.typical_loss[4] = damped + sum(own[4] - damped for own in typical)
    if out.frame is not None and done.start.frame is not None:
        before = done.start.frame[FRAME_SUMS:]
        added = sum(r.frame[FRAME_SUMS:] - before for r in done.replicas if r.frame is not None)
        out.frame[FRAME_SUMS:] = before + added


class Engine(ABC):
    """Where steps run. Engines are stateless settings; what lasts from call to call is the state that ``start`` makes.

    ``main`` is the replica that the trainer shows to the world. Between ``settle`` calls it may lag behind.
    """

    name: ClassVar[str]
    at_once: ClassVar[bool] = False  # whether steps run on ``main`` as they come

    def settings(self) -> dict[str, Any]:
        """Return the engine as plain data, for files."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    @property
    def replicas(self) -> int:
        """Number of replicas that learn side by side."""
        return 1

    def start(self) -> Any:
        """Return the engine's state before the first sample."""
        return None

    @abstractmethod
    def advance(self, rule: Rule[Any], main: Replica, state: Any, work: Work, coming: Sequence[Work] = ()) -> Steps:
        """Take the steps of ``work``, and perhaps those of ``coming``, which is what the next calls will ask for."""

    def looks_ahead(self, rule: Rule[Any], main: Replica, state: Any, context: Context) -> int:
        """Number of samples that may be learned at once, whatever the checks among them; 0 if only up to the next."""
        return 0

    def is_ahead(self, state: Any) -> bool:
        """Whether steps of works that were coming are taken already."""
        return False

    def rewind(self, rule: Rule[Any], state: Any) -> None:
        """Take back the steps of works that were coming."""
        return

    def settle(self, rule: Rule[Any], main: Replica, state: Any, bounds: Bounds) -> None:
        """Make ``main`` show everything learned so far."""
        return

    def skips_check(self, rule: Rule[Any], main: Replica, state: Any, context: Context) -> bool:
        """Whether the rule's check may be skipped so that replicas continue undisturbed."""
        return False

    def end_round(self, rule: Rule[Any], main: Replica, state: Any, bounds: Bounds) -> None:
        """Merge all replicas into ``main`` and begin a new round with the next steps."""
        return

    def learning_rate(self, rule: Rule[Any], main: Replica, state: Any) -> float:
        """Return the rule's current learning rate."""
        return rule.learning_rate(main.state)

    def own_replicas(self, state: Any) -> list[Replica]:
        """Return the replicas of the engine's state, beside the one that the trainer shows."""
        return []

    def named(self, state: Any) -> Named:
        """Return the tensors of the engine's state by name, for a file."""
        return {}

    def restored(self, main: Replica, named: Mapping[str, npt.NDArray[Any]]) -> Any:
        """Return the engine's state from tensors; raise an exception if they do not fit."""
        return self.start()
