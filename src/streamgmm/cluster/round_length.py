"""How many samples a round has: many enough that merging takes little time, few enough that replicas stay alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from streamgmm.core.trainer import Trainer
from streamgmm.errors import SettingError

MERGING = 0.1  # largest share of the time that sending and merging may take
GROWTH = 16  # a round has at most one sample for so many learned before, however cheap more would be
SHORTEST, LONGEST = 100, 1_000_000  # samples of a replica in a round, unless a number is given


@dataclass
class RoundLength:
    """The length of rounds. While annealing lasts they end at every check; what a round costs is measured meanwhile.

    Parameters
    ----------
    samples : int or None, default=None
        Samples of each replica in a round; None to choose it when annealing is over.
    chosen : bool, default=False
        Whether ``samples`` was chosen by measuring.
    """

    samples: int | None = None
    chosen: bool = False
    _costs: list[tuple[float, float]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.samples is not None and self.samples < 1:
            raise SettingError("round_samples", self.samples, "a number of samples of at least 1", ", or None")

    def next_round(self, trainer: Trainer, replicas: int) -> int:
        """Return how many samples the next round has.

        Parameters
        ----------
        trainer : Trainer
            The training.
        replicas : int
            Number of replicas.
        """
        if self.samples is None and trainer.annealed and self._costs:
            self.samples, self.chosen = self._cheap_enough(), True
        wanted = SHORTEST if self.samples is None else self.samples
        return trainer.samples_in_round(min(wanted * replicas, trainer.n_samples // GROWTH))

    def observe(self, overhead: float, seconds_per_sample: float) -> None:
        """Take note of what a round has cost.

        Parameters
        ----------
        overhead : float
            Seconds that were spent on anything but learning.
        seconds_per_sample : float
            Seconds that a replica needs to read and learn a sample.
        """
        if self.samples is None:
            self._costs.append((overhead, seconds_per_sample))

    def _cheap_enough(self) -> int:
        overhead, seconds = (median(values) for values in zip(*self._costs, strict=True))
        wanted = overhead * (1 - MERGING) / MERGING / max(seconds, 1e-9)
        return int(min(LONGEST, max(SHORTEST, wanted)))

    def facts(self) -> dict[str, Any]:
        """Return the length as plain data."""
        return {"samples": self.samples, "chosen": self.chosen}
