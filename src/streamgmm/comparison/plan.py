"""What to compare, and the measurements that this takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from streamgmm.comparison.anomalies import held_out_classes, measure_anomalies
from streamgmm.comparison.contenders import VALIDATION
from streamgmm.comparison.densities import measure_density
from streamgmm.comparison.origins import Origin, load_dequantised, load_raw
from streamgmm.comparison.streams import DRIFTING, OVERLAPPING, Stream, measure_drift, measure_overlap
from streamgmm.paper.processes import call_in_processes

OVERLAP, DRIFT = "overlap", "drift"
STREAMS = (OVERLAP, DRIFT)


class Task(NamedTuple):
    """One measurement.

    Parameters
    ----------
    block : str
        "density", "anomalies", "overlap" or "drift".
    subject : Origin or Stream
        The set, or the stream.
    components : int
        Number of components.
    split : int
        Number of the split.
    seed : int
        Seed of the models.
    """

    block: str
    subject: Origin | Stream
    components: int
    split: int
    seed: int


class About(NamedTuple):
    """What a table says about a set.

    Parameters
    ----------
    name : str
        What to call it.
    rows : int
        Number of rows.
    features : int
        Number of features.
    classes : int
        Number of classes held out one by one; 0 without labels.
    splits : int
        Number of splits.
    train : int
        Rows for training.
    notes : tuple of str
        What was left out or changed.
    """

    name: str
    rows: int
    features: int
    classes: int
    splits: int
    train: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Parameters
    ----------
    origins : list of Origin
        The sets.
    components : list of int
        Numbers of components.
    splits : int
        Random splits of each set.
    seeds : int
        Seeds of the models for each split.
    streams : tuple of str
        Comparisons on streams, out of ``STREAMS``.
    """

    origins: list[Origin]
    components: list[int]
    splits: int
    seeds: int
    streams: tuple[str, ...] = ()

    def describe(self, origin: Origin) -> About:
        """Load a set, and return what a table says about it.

        Parameters
        ----------
        origin : Origin
            The set.
        """
        samples = load_dequantised(origin)
        splits = samples.splits(self.splits)
        classes = 0 if samples.labels is None else len(held_out_classes(samples.labels))
        notes = (*samples.notes, "a single class, no anomaly ranking") if classes == 1 else samples.notes
        rows, features = samples.rows.shape
        train = len(samples.split(0)[0])
        return About(samples.name, rows, features, classes if classes > 1 else 0, splits, train, notes)

    def tasks(self, known: dict[Origin, About]) -> list[Task]:
        """Return all measurements; sets come one after the other.

        Parameters
        ----------
        known : dict
            What ``describe`` found for each set.
        """
        found = []
        for origin, about in known.items():
            for block in ("density", "anomalies") if about.classes else ("density",):
                found += [
                    Task(block, origin, k, split, seed)
                    for k in self.components
                    if enough_rows(about, k)
                    for split in range(about.splits)
                    for seed in range(self.seeds)
                ]
        if OVERLAP in self.streams:
            found += [Task(OVERLAP, s, s.clusters, 0, seed) for s in OVERLAPPING for seed in range(self.seeds)]
        if DRIFT in self.streams:
            found += [
                Task(DRIFT, s, k, 0, seed) for s in DRIFTING for k in self.components for seed in range(self.seeds)
            ]
        return found


def enough_rows(about: About, components: int) -> bool:
    """Return whether scikit-learn, which needs a row per component, can fit the part that is not for validation.

    Parameters
    ----------
    about : About
        The set.
    components : int
        Number of components.
    """
    return int((1 - VALIDATION) * about.train) >= components


def measure(task: Task) -> dict[str, Any]:
    """Make one measurement.

    Parameters
    ----------
    task : Task
        What to measure.
    """
    _, subject, components, split, seed = task
    if isinstance(subject, Stream):
        return measure_overlap(subject, seed) if task.block == OVERLAP else measure_drift(subject, components, seed)
    if task.block == "density":
        return measure_density(load_dequantised(subject), components, split, seed)
    return measure_anomalies(load_raw(subject), components, split, seed)


def measure_all(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Yield measurements as they are done; one job works in this process.

    Parameters
    ----------
    tasks : list of Task
        What to measure.
    jobs : int
        Processes.
    """
    if jobs == 1:
        with threadpool_limits(1):
            for task in tasks:
                yield task, measure(task)
        return
    with closing(call_in_processes(measure, tasks, jobs)) as measured:
        yield from measured
