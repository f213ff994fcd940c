"""What to measure: data sets, seeds and processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamgmm.paper.durations import expected_seconds, machine_factor
from streamgmm.paper.measurements import measure
from streamgmm.paper.runs import Results, Run, measure_all, recorded


@dataclass(frozen=True)
class Plan:
    """What to measure, and where to keep the records.

    Parameters
    ----------
    names : list of str
        Data sets.
    seeds : int
        Seeds per data set; Fruits 360 has at most three.
    jobs : int
        Processes.
    folder : Path
        Folder of the records.
    quick : bool, default=False
        Whether to use few rows, one seed and one pass, to see that everything works.
    """

    names: list[str]
    seeds: int
    jobs: int
    folder: Path
    quick: bool = False

    def seeds_of(self, name: str) -> range:
        """Return the seeds for a data set.

        Parameters
        ----------
        name : str
            The data set.
        """
        return range(1 if self.quick else min(self.seeds, 3) if name == "fruits360" else self.seeds)

    @property
    def passes(self) -> int:
        """Passes over the data."""
        return 1 if self.quick else 3

    def part(self, name: str, **wanted: Any) -> dict[str, Any]:
        """Return which data of a set a run uses.

        Parameters
        ----------
        name : str
            The data set.
        **wanted
            Entries of ``Run.data``.
        """
        rows = {"rows": 200 if name == "fruits360" else 1500} if self.quick else {}
        return {**wanted, **rows}

    def run(self, runs: Iterable[Run], label: str) -> Results:
        """Measure runs that have no record yet; return the results of all.

        Parameters
        ----------
        runs : iterable of Run
            The runs.
        label : str
            What to call them in the progress line.
        """
        return measure_all(runs, measure, self.folder, self.jobs, label)

    def seconds(self, runs: Iterable[Run]) -> float:
        """Estimate how long the runs take that have no record yet.

        Parameters
        ----------
        runs : iterable of Run
            The runs.
        """
        runs = list(runs)
        known = recorded(runs, self.folder)
        missing = {run.file: run for run in runs if run.file not in known}
        return machine_factor() * sum(map(expected_seconds, missing.values())) / self.jobs
