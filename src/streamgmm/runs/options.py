"""Options of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunOptions:
    """How a run reads its source and keeps its folder.

    Parameters
    ----------
    passes : int, "auto" or None, default=1
        Passes over the source. ``"auto"`` makes as many as a file needs and refines the result by batch EM if it has
        few rows; it is one pass, without refinement, for endless sources and for models that follow a change. None
        follows the source for ever.
    checkpoint_every : int, default=100_000
        Samples between two checkpoints.
    checkpoint_seconds : float, default=60.0
        Seconds between two checkpoints, so that a slow stream is safe, too.
    scale : {"none", "minmax", "standard"}, default="none"
        How to scale rows, learned from the first 1000.
    missing : {"error", "learn", "skip"}, default="error"
        What to do with rows that have gaps.
    seed : int, default=0
        Randomness of the start, and of the order of rows.
    shuffle : {"auto", "yes", "no"}, default="no"
        Whether rows are learned in random order; this takes up to 256 MB of memory. ``"auto"`` shuffles unless the
        source cannot be read in any order or is followed, or the model follows a change.
    keep : int, default=0
        Dated versions of the model to keep beside it.
    rows : bool, default=True
        Whether checkpoints hold rows of the stream, at most 2000, which keep the threshold up to date after a resume.
    """

    passes: int | str | None = 1
    checkpoint_every: int = 100_000
    checkpoint_seconds: float = 60.0
    scale: str = "none"
    missing: str = "error"
    seed: int = 0
    shuffle: str = "no"
    keep: int = 0
    rows: bool = True
