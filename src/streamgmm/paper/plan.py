"""What to measure: data sets, seeds and processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from streamgmm.paper.durations import SIZES, expected_seconds, machine_factor
from streamgmm.paper.measurements import measure
from streamgmm.paper.own_data import OwnData
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Results, Run, measure_all, recorded

P = TypeVar("P")
COMPONENTS = 64


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
    own : OwnData or None, default=None
        A user's own set, in place of the paper's.
    components : int, default=64
        Number of components.
    rule : str, default="sgd"
        The rule that takes the place of SGD in the tables.
    """

    names: list[str]
    seeds: int
    jobs: int
    folder: Path
    quick: bool = False
    own: OwnData | None = None
    components: int = COMPONENTS
    rule: str = "sgd"

    def seeds_of(self, name: str) -> range:
        """Return the seeds for a data set.

        Parameters
        ----------
        name : str
            The data set.
        """
        return range(1 if self.quick else min(self.seeds, 3) if name == "fruits360" else self.seeds)

    def few_seeds(self, name: str, most: int = 3) -> range:
        """Return at most ``most`` seeds, for tables of minor importance; Fruits 360 takes so long that it gets one.

        Parameters
        ----------
        name : str
            The data set.
        most : int, default=3
            Number of seeds at most.
        """
        return self.seeds_of(name)[: 1 if name == "fruits360" else most]

    @property
    def passes(self) -> int:
        """Passes over the data."""
        return 1 if self.quick else 3

    @property
    def method(self) -> str:
        """What tables call the rule that is compared with stochastic EM."""
        return {"sgd": "SGD", "sem": "sEM"}.get(self.rule, self.rule)

    @property
    def size(self) -> str:
        """Words for captions: number of components and passes, and what a quick form leaves out."""
        passes = "1 pass" if self.passes == 1 else f"{self.passes} passes"
        few = " over at most 1500 rows (quick form)" if self.quick else ""
        return f"K = {self.components}, batch size 1, {passes}{few}"

    def title(self, name: str) -> str:
        """Return what tables call a data set.

        Parameters
        ----------
        name : str
            The data set.
        """
        return NAMES.get(name, name)

    def classes(self, name: str) -> int:
        """Return the number of classes of a set; 0 if it has none. The paper's sets have at least ten.

        Parameters
        ----------
        name : str
            The data set.
        """
        return 10 if self.own is None else self.own.classes

    def sizes(self, name: str) -> tuple[int, int, int]:
        """Return the numbers of training samples, test samples and features.

        Parameters
        ----------
        name : str
            The data set.
        """
        return SIZES[name] if self.own is None else self.own.size

    def published(self, table: Mapping[str, P], name: str) -> P | None:
        """Return what the paper has published of a set; None if this plan measures something else.

        Parameters
        ----------
        table : mapping
            Published results by data set.
        name : str
            The data set.
        """
        return table.get(name) if self.has_published else None

    @property
    def has_published(self) -> bool:
        """Whether the paper has published results of what this plan measures."""
        return self.own is None and self.components == COMPONENTS and self.rule == "sgd"

    def settings(self, rule: str, **others: Any) -> dict[str, Any]:
        """Return the settings of a run.

        Parameters
        ----------
        rule : str
            The rule.
        **others
            Settings that differ from the defaults.
        """
        size = {} if self.components == COMPONENTS else {"n_components": self.components}
        return {"rule": rule, **size, **others}

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
        own = {} if self.own is None else {"own": self.own.facts()}
        return {**wanted, **rows, **own}

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
