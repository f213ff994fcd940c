"""Tables and verdicts from measurements, as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from streamgmm.comparison import captions
from streamgmm.comparison.figures import Cell, Results, both, differences, seconds, sorted_results
from streamgmm.comparison.origins import Origin
from streamgmm.comparison.plan import DRIFT, OVERLAP, About, Plan, Task, enough_rows
from streamgmm.comparison.streams import DRIFTING, OVERLAPPING, Stream
from streamgmm.comparison.verdicts import LIMIT, OVERLAP_LIMIT, WINDOW_LIMIT, judge, median_verdict, ranking_verdict
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.runs import versions


@dataclass
class Report:
    """What is known so far.

    Parameters
    ----------
    plan : Plan
        What to compare.
    known : dict
        What ``Plan.describe`` found for each set.
    results : dict, default={}
        Measurements by task.
    """

    plan: Plan
    known: dict[Origin, About]
    results: Results = field(default_factory=dict)

    def tables(self) -> list[Table]:
        """Return a table for each block that has results."""
        makers = (self._density, self._anomalies, self._overlap, self._drift)
        return [table for make in makers if (table := make()).rows]

    def verdicts(self) -> list[str]:
        """Return what the tables say, in a sentence or two each."""
        density = self._cells("density")
        found = [] if not density else [median_verdict([(self._name(t), *self._gap(t, cell)) for t, cell in density])]
        ranking, overlap = (
            [(self._name(t), float(differences(cell).mean())) for t, cell in self._cells(block)]
            for block in ("anomalies", OVERLAP)
        )
        found += [ranking_verdict(ranking)] if ranking else []
        found += [judge("Overlapping clusters", overlap, OVERLAP_LIMIT)] if overlap else []
        drift = [(self._name(t), min(r["lowest"] for r in cell)) for t, cell in self._cells(DRIFT)]
        return [*found, judge("Drift", drift, WINDOW_LIMIT)] if drift else found

    def notes(self) -> list[str]:
        """Return what was left out, changed or unusual, set by set."""
        found = []
        for about in self.known.values():
            few = [str(k) for k in self.plan.components if not enough_rows(about, k)]
            more = [f"too few rows for K = {', '.join(few)}, not compared"] if few else []
            found += [f"{about.name}: {'; '.join([*about.notes, *more])}."] if about.notes or more else []
        for label, key in (
            ("candidates that scikit-learn could not fit", "their_failures"),
            ("fits of scikit-learn that did not converge", "their_unconverged"),
            ("classes with too few rows beside them, not ranked", "classes_skipped"),
        ):
            if count := sum(result.get(key, 0) for result in self.results.values()):
                found.append(f"{label}: {count}.")
        said = [text for result in self.results.values() for text in result.get("our_warnings", ())]
        return [*found, f"warnings of ours: {len(said)}, the first: {said[0]}"] if said else found

    def markdown(self, total: int) -> str:
        """Return everything as Markdown.

        Parameters
        ----------
        total : int
            Number of measurements that were planned.
        """
        done = len(self.results)
        state = count_measurements(done) if done == total else f"INCOMPLETE: {done:,} of {count_measurements(total)}"
        about = "; ".join(f"{k} {v}" for k, v in versions().items())
        parts = [
            f"{state}; splits: {self.plan.splits}, seeds: {self.plan.seeds}; mean ± standard deviation; {about}.\n"
        ]
        parts += [table.markdown() for table in self.tables()]
        parts += [f"**Verdict.** {' '.join(self.verdicts())}\n"] if self.results else []
        parts += ["Notes:\n\n" + "\n".join(f"- {note}" for note in self.notes()) + "\n"] if self.notes() else []
        return "\n".join(parts)

    def json(self, total: int) -> str:
        """Return everything as JSON.

        Parameters
        ----------
        total : int
            Number of measurements that were planned.
        """
        measured = [{**task._asdict(), "subject": self._subject(task), **r} for task, r in sorted_results(self.results)]
        content = {
            "planned": total,
            "splits": self.plan.splits,
            "seeds": self.plan.seeds,
            "versions": versions(),
            "sets": [about._asdict() for about in self.known.values()],
            "tables": [asdict(table) for table in self.tables()],
            "verdicts": self.verdicts(),
            "notes": self.notes(),
            "measurements": measured,
        }
        return json.dumps(content, indent=1)

    def _cells(self, block: str) -> list[tuple[Task, Cell]]:
        """Return the results of a block by set and number of components, with one task each that stands for all."""
        cells: dict[tuple[Any, int], tuple[Task, Cell]] = {}
        for task, result in sorted_results(self.results):
            if task.block == block and result["ours"] is not None:
                cells.setdefault((task.subject, task.components), (task, []))[1].append(result)
        order: list[Any] = {OVERLAP: OVERLAPPING, DRIFT: DRIFTING}.get(block) or [*self.known]
        return [cells[key] for key in sorted(cells, key=lambda key: (order.index(key[0]), key[1]))]

    def _subject(self, task: Task) -> str:
        if isinstance(task.subject, Origin):
            return self.known[task.subject].name
        return f"{task.subject.clusters}-cluster stream of D = {task.subject.features}"

    def _name(self, task: Task) -> str:
        """Return what to call a row of a table in a sentence."""
        return self._subject(task) if task.block == OVERLAP else f"{self._subject(task)} with K = {task.components}"

    def _gap(self, task: Task, cell: Cell) -> tuple[float, float]:
        """Return the mean difference of a set, and the limit."""
        assert isinstance(task.subject, Origin)
        return float(differences(cell).mean()), LIMIT * self.known[task.subject].features

    def _density(self) -> Table:
        columns = ["data", "rows × features", "K", "scikit-learn", "ours, raw", "difference", "limit", "verdict", "s"]
        table = Table("Density", captions.DENSITY, columns)
        for task, cell in self._cells("density"):
            assert isinstance(task.subject, Origin)
            about, (gap, limit) = self.known[task.subject], self._gap(task, cell)
            verdict = "better" if gap > 0 else "within" if gap >= -limit else "**worse**"
            size = f"{about.rows:,} × {about.features:,}"
            row = [about.name, size, task.components, *both(cell, 3), f"{-limit:.2f}", verdict]
            table.rows.append([*row, seconds(cell)])
        return table

    def _anomalies(self) -> Table:
        columns = ["data", "classes", "K", "scikit-learn", "ours, raw", "difference", "verdict", "s"]
        table = Table("Anomaly ranking", captions.ANOMALIES, columns)
        for task, cell in self._cells("anomalies"):
            assert isinstance(task.subject, Origin)
            about = self.known[task.subject]
            verdict = "at least" if differences(cell).mean() >= 0 else "**worse**"
            figures = both(cell, 2, factor=100)
            table.rows.append([about.name, about.classes, task.components, *figures, verdict, seconds(cell)])
        return table

    def _overlap(self) -> Table:
        columns = ["D", "scikit-learn", "ours", "difference", "verdict"]
        table = Table("Overlapping clusters, one pass", captions.OVERLAP, columns)
        for task, cell in self._cells(OVERLAP):
            assert isinstance(task.subject, Stream)
            verdict = "within" if differences(cell).mean() >= -OVERLAP_LIMIT else "**worse**"
            table.rows.append([task.subject.features, *both(cell, 4), verdict])
        return table

    def _drift(self) -> Table:
        columns = ["D", "clusters", "K", "running Gaussian", "ours", "difference", "lowest difference", "verdict"]
        table = Table("Drift, scored before learned", captions.DRIFT, columns)
        for task, cell in self._cells(DRIFT):
            assert isinstance(task.subject, Stream)
            lowest = min(result["lowest"] for result in cell)
            verdict = "within" if lowest >= -WINDOW_LIMIT else "**worse**"
            table.rows.append([*task.subject, task.components, *both(cell, 2), f"{lowest:+.2f}", verdict])
        return table


def count_measurements(count: int) -> str:
    """Return a number of measurements in words.

    Parameters
    ----------
    count : int
        How many.

    Examples
    --------
    >>> count_measurements(1), count_measurements(1200)
    ('1 measurement', '1,200 measurements')
    """
    return f"{count:,} measurement{'' if count == 1 else 's'}"
