"""Rounds that any engine can run: what travels to the replicas of a round and back, and how reports are joined.

Everything that travels is plain data: facts, which are JSON, and named arrays. Nothing here knows where shares are
learned, so the result depends on the shares and not on the machines, their order or their speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streamgmm.core.annealing import FARTHEST
from streamgmm.core.engine import Replica
from streamgmm.core.state import Named, require_range
from streamgmm.native import Steps


class RoundStart(NamedTuple):
    """Where a round starts: all that a replica needs to learn its share.

    Attributes
    ----------
    facts : dict
        Settings, number of replicas and where training stands, as JSON.
    tensors : dict of str to ndarray
        Parameters and the state of the rule.
    """

    facts: dict[str, Any]
    tensors: Named

    @property
    def replicas(self) -> int:
        """Number of shares that the round has."""
        return int(self.facts["replicas"])


class LearnedShare(NamedTuple):
    """What one replica has made of its share of a round.

    Attributes
    ----------
    facts : dict
        Number of the replica, the round it belongs to, and what it has learned, as JSON.
    tensors : dict of str to ndarray
        The replica, and reports of its steps.
    """

    facts: dict[str, Any]
    tensors: Named

    @property
    def samples(self) -> int:
        """Samples learned."""
        return int(self.facts["samples"])

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self.tensors["losses"])


class Report(NamedTuple):
    """What all replicas report of their steps between two checks, in the order in which one would have taken them."""

    steps: Steps
    batch_size: int


def learned_replicas(template: Replica, start: RoundStart, learned: list[LearnedShare]) -> list[Replica]:
    """Return the replicas of a round; raise ValueError unless all of its shares are there, each once."""
    numbers = [int(share.facts["replica"]) for share in learned]
    if numbers != list(range(start.replicas)):
        raise ValueError(f"shares of replicas {numbers} arrived; expected each from 0 to {start.replicas - 1} once.")
    if any(share.facts["round"] != start.facts["round"] for share in learned):
        raise ValueError("a share belongs to another round; merge what was learned from the start of this one.")
    for share in learned:
        _check_reports(share, len(template.parameters))
    return [_replica(template, share) for share in learned]


def _check_reports(share: LearnedShare, n_components: int) -> None:
    """Raise ValueError unless the reports of a share fit what it says about itself."""
    facts, (losses, tops, wins) = share.facts, (share.tensors[name] for name in ("losses", "max_components", "wins"))
    steps, rest = [int(n) for n in facts["steps"]], int(facts["rest"])
    shape = (len(steps) + (rest > 0), n_components)
    if losses.shape != (sum(steps) + (rest > 0),) or tops.shape != losses.shape or wins.shape != shape:
        raise ValueError(f"the reports of replica {facts['replica']} do not fit its {sum(steps)} steps.")
    if losses.dtype != np.float64 or tops.dtype != np.float64 or wins.dtype != np.int64:
        raise ValueError(f"the reports of replica {facts['replica']} do not have the types of losses and counts.")
    require_range("losses", losses, -FARTHEST, FARTHEST)
    require_range("max_components", tops, -FARTHEST, FARTHEST)
    require_range("wins", wins, 0, int(facts["samples"]))
    if int(wins.sum()) != int(facts["samples"]):
        raise ValueError(f"replica {facts['replica']} has learned {facts['samples']} samples, but counts {wins.sum()}.")


def _replica(template: Replica, share: LearnedShare) -> Replica:
    own = {n.removeprefix("replica."): v for n, v in share.tensors.items() if n.startswith("replica.")}
    if any(v.dtype.kind == "f" and not np.isfinite(v).all() for n, v in own.items() if n != "frame"):
        raise ValueError(f"replica {share.facts['replica']} holds numbers that are not finite; learn its share again.")
    try:
        return template.restored(own)
    except KeyError as problem:
        raise ValueError(f"replica {share.facts['replica']} lacks the tensor {problem}.") from problem


def reports_in_order(learned: list[LearnedShare], batch_size: int) -> Iterator[Report]:
    """Yield reports from one check to the next: step t comes from replica t mod R as long as all have steps."""
    ends = [np.cumsum([0, *share.facts["steps"]]) for share in learned]
    for piece in range(max(len(e) for e in ends) - 1):
        parts = [
            (share, slice(e[piece], e[piece + 1])) for share, e in zip(learned, ends, strict=True) if piece + 1 < len(e)
        ]
        places = [np.arange(part.start, part.stop) * len(learned) + share.facts["replica"] for share, part in parts]
        order = np.argsort(np.concatenate(places))
        losses, tops = (
            np.concatenate([share.tensors[name][part] for share, part in parts])[order]
            for name in ("losses", "max_components")
        )
        wins = np.sum([share.tensors["wins"][piece] for share, _ in parts], axis=0)
        yield Report(_steps(losses, tops, wins), batch_size)
    for share, e in zip(learned, ends, strict=True):
        if rest := int(share.facts["rest"]):
            losses, tops = (share.tensors[name][e[-1] :] for name in ("losses", "max_components"))
            yield Report(_steps(losses, tops, share.tensors["wins"][-1]), rest)


def _steps(losses: Any, tops: Any, wins: Any) -> Steps:
    return Steps(losses, tops, wins, np.zeros(len(wins)), np.zeros(1, np.int64))
