"""How many samples a round has: many enough that merging takes little time, few enough that replicas stay alike."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from streamgmm.core.trainer import Trainer
from streamgmm.errors import SettingError

MEASURED = 8  # latest rounds that show what a round costs; while annealing lasts, samples cost several times as much
MERGING = 0.1  # largest share of the time that sending and merging may take
GROWTH = 16  # a round has at most one sample for so many learned before, however cheap more would be
SHORTEST, LONGEST = 100, 1_000_000  # samples of a replica in a round, unless a number is given


@dataclass
class RoundLength:
    """The length of rounds. While annealing lasts they end at every check; then they grow with the samples learned.

    They have grown enough when sending and merging take less than a tenth of the time, as the latest ones show.

    Parameters
    ----------
    samples : int or None, default=None
        Samples of each replica in a round; None to choose it by measuring.
    chosen : bool, default=False
        Whether ``samples`` was chosen by measuring.
    """

    samples: int | None = None
    chosen: bool = False
    _costs: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MEASURED), repr=False)

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
        if not trainer.annealed:
            self._costs.clear()
        longest = trainer.n_samples // GROWTH
        if self.samples is None and len(self._costs) == MEASURED:
            enough = self._cheap_enough()
            if enough * replicas <= longest:
                self.samples, self.chosen = enough, True
        wanted = longest if self.samples is None else self.samples * replicas
        return trainer.samples_in_round(min(wanted, longest))

    def observe(self, overhead: float, seconds_per_sample: float) -> None:
        """Record what a round has cost.

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
        overheads, seconds = zip(*self._costs, strict=True)
        usual_most = sorted(overheads)[3 * len(overheads) // 4]  # rounds that replace components take longer
        wanted = usual_most * (1 - MERGING) / MERGING / max(median(seconds), 1e-9)
        return int(min(LONGEST, max(SHORTEST, wanted)))

    def facts(self) -> dict[str, Any]:
        """Return the length as plain data."""
        return {"samples": self.samples, "chosen": self.chosen}
