"""What a checkpoint says about its run: its source, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Progress:
    """How far a run has come in its source; all counts are totals over resumes."""

    epoch: int = 0
    position: dict[str, Any] | None = None
    samples: int = 0
    scored: int = 0  # no longer used
    last_check_event: int = 0  # samples at the last check that became an event
    last_checkpoint_event: int = 0  # and at the last checkpoint that did
    bad: int = 0
    missing: int = 0  # rows skipped because of gaps
    seconds: float = 0.0
    events: int = 0  # bytes of events that were written
    finished: bool = False
    pass_rows: int = 0  # usable rows of the first pass, so far
    n_rows: int = 0  # rows of the source, as far as they were read in any pass
    counted_rows: int = 0  # of these, those of earlier passes: bad ones and gaps are counted once
    earlier_samples: int = 0  # learned from other sources before
    drifts: int = 0  # that were detected


@dataclass
class RunRecord:
    """What a checkpoint says about its run."""

    source: str = ""
    missing: str = "error"
    fingerprint: list[Any] | None = None
    passes: int | str | None = None  # a number or "auto"; None while a source is followed
    shuffle_seed: int | None = None  # of the order of rows; None in the order of the source
    left_out: list[str] = field(default_factory=list)  # columns without numbers
    heading: list[str] | None = None  # names of all columns of a text, in their order
    watch: dict[str, Any] | None = None  # where watching stands; see `WatchState`
    cluster: dict[str, Any] | None = None  # workers, length of rounds and vector width, if it was trained on a cluster
    progress: Progress = field(default_factory=Progress)

    def facts(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {**vars(self), "progress": dict(vars(self.progress))}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> RunRecord:
        """Return the record that ``facts`` gave; raise KeyError or TypeError if they are not of a run."""
        return cls(**{**facts, "progress": Progress(**facts["progress"])})
