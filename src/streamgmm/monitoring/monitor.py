"""What is typical of a stream: quantiles of recent scores, and the strangest recent rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.monitoring.quantiles import RecentQuantiles
from streamgmm.monitoring.strangest import StrangestRows


@dataclass
class Monitor:
    """Scores and rows that a run or a detector has seen."""

    scores: RecentQuantiles = field(default_factory=RecentQuantiles)
    strangest: StrangestRows = field(default_factory=StrangestRows)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as arrays, for a file."""
        current, previous = (np.frombuffer(digest, np.uint8) for digest in self.scores.digests())
        rows = self.strangest
        return {
            "scores": current,
            "scores_before": previous,
            "rows": rows.rows,
            "row_scores": rows.scores,
            "row_numbers": rows.numbers,
            "row_times": rows.times,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]]) -> Monitor:
        """Return the monitor that ``tensors`` describe; raise ValueError or KeyError if they are damaged."""
        scores = RecentQuantiles.from_digests(tensors["scores"].tobytes(), tensors["scores_before"].tobytes())
        strangest = StrangestRows()
        strangest.rows, strangest.scores = tensors["rows"], tensors["row_scores"]
        strangest.numbers, strangest.times = tensors["row_numbers"], tensors["row_times"]
        if len({len(tensors[name]) for name in ("rows", "row_scores", "row_numbers", "row_times")}) > 1:
            raise ValueError("the strangest rows and their scores differ in number")
        return cls(scores, strangest)
