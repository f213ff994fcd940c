"""Replicas of a training become one again. Every function works on some components, so that threads can share them.

A round starts from one set of parameters; each replica learns from its share of the samples; merging moves every
component from the start by shares of what the replicas did to it. With one batch for each of R replicas the result is
that of one batch R times as large.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm import kernels
from streamgmm.kernels import Pair, Parameters

State = dict[str, npt.NDArray[Any]]


class Part(NamedTuple):
    """Parameters and what a rule remembers: of the start of a round, of a replica, or of the outcome."""

    state: State
    parameters: Parameters


class Round(NamedTuple):
    """What happened: where it started, what became of each replica, and how many steps each has taken."""

    start: Part
    replicas: list[Part]
    taken: list[int]
    scale_bounds: tuple[float, float]

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of all steps that each replica has taken, (R,)."""
        return np.array(self.taken) / sum(self.taken)

    @property
    def variance_max(self) -> float:
        """Beyond it a variance has no scale."""
        return float(1 / self.scale_bounds[0] ** 2)

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """One number a component from the state of each replica: (K, R)."""
        return np.stack([r.state[name] for r in self.replicas], axis=1)


def average_parameters(done: Round, out: Part, rows: range) -> None:
    """Means, scales and logits: what gradient steps change."""
    add_changes(done, out, rows, np.tile(done.shares, (len(out.parameters), 1)))
    out.parameters.refresh(rows)
    part = slice(rows.start, rows.stop)
    logits = np.stack([r.parameters.logits[part] for r in done.replicas])
    start = done.start.parameters.logits[part]
    out.parameters.logits[part] = start + done.shares @ (logits - start)


def add_changes(done: Round, out: Part, rows: range, shares: npt.NDArray[np.float64]) -> None:
    """Means and scales as plain numbers; scales that nobody has changed stay."""

    def pair(part: Part) -> Pair:
        return Pair(part.parameters.means_buffer, part.parameters.scales_buffer)

    kernels.merge_rows(pair(out), pair(done.start), [pair(r) for r in done.replicas], shares, rows)


def add_moments(done: Round, out: Part, rows: range, shares: npt.NDArray[np.float64]) -> None:
    """Running means and variances of the parameters themselves, and the scales that follow from them."""

    def pair(part: Part) -> Pair:
        return Pair(part.parameters.means_buffer, part.state["variances"])

    parts = [pair(r) for r in done.replicas]
    kernels.merge_rows(pair(out), pair(done.start), parts, shares, rows, variance_max=done.variance_max)
    kernels.rescale(out.parameters, out.state["variances"], done.scale_bounds, rows)


def add_collected(done: Round, out: Part, rows: range, shares: npt.NDArray[np.float64]) -> None:
    """Means and variances that are still apart from the parameters."""

    def pair(part: Part) -> Pair:
        return Pair(part.state["means"], part.state["variances"])

    parts = [pair(r) for r in done.replicas]
    kernels.merge_rows(pair(out), pair(done.start), parts, shares, rows, variance_max=done.variance_max)
