"""Options of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunOptions:
    """How a run reads its source and keeps its folder.

    Parameters
    ----------
    passes : int or None, default=1
        Passes over the source; None follows it for ever.
    checkpoint_every : int, default=100_000
        Samples between two checkpoints.
    checkpoint_seconds : float, default=60.0
        Seconds between two checkpoints, so that a slow stream is safe, too.
    scale : {"none", "minmax", "standard"}, default="none"
        How to scale rows, learned from the first 1000.
    missing : {"error", "learn", "skip"}, default="error"
        What to do with rows that have gaps.
    seed : int, default=0
        Randomness of the start.
    """

    passes: int | None = 1
    checkpoint_every: int = 100_000
    checkpoint_seconds: float = 60.0
    scale: str = "none"
    missing: str = "error"
    seed: int = 0
