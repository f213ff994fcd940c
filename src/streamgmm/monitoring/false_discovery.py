"""Online control of false discoveries: of all alarms, only a small share is false.

The method is LORD with decaying memory, as proposed for anomaly detection:

    Q. Rebjock, B. Kurt, T. Januschowski, L. Callot: Online false discovery rate control for anomaly detection in time
    series. NeurIPS 2021.

    A. Ramdas, F. Yang, M. J. Wainwright, M. I. Jordan: Online control of the false discovery rate with decaying memory.
    NeurIPS 2017.

Without decay, the level of a stream without anomalies falls until no p-value can reach it. Here it never falls below
``rate / MEMORY``: a stream without any anomaly gives one false alarm in ``MEMORY / rate`` rows, 200 000 by default.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.errors import SettingError

MEMORY = 10_000  # rows after which a discovery counts 1/e
SPANS = (10, 100, 1000, 10_000)  # mean rows over which a discovery raises the level; a quarter of it over each


class DiscoveryState(NamedTuple):
    """What the next level depends on: plain numbers, which go into a checkpoint as ``_asdict()``.

    Parameters
    ----------
    row : int, default=0
        Rows so far.
    last : int, default=0
        Rows up to and including the last discovery.
    sums : sequence of float, default=(0, 0, 0, 0)
        For each span, the past discoveries at that moment, each discounted by its age.
    """

    row: int = 0
    last: int = 0
    sums: tuple[float, ...] = (0.0,) * len(SPANS)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> DiscoveryState:
        """Return the state that ``_asdict()`` gave, also if it was JSON meanwhile."""
        return cls(int(facts["row"]), int(facts["last"]), tuple(float(s) for s in facts["sums"]))


def discover(
    state: DiscoveryState, p_values: npt.NDArray[np.float64], rate: float = 0.05
) -> tuple[npt.NDArray[np.bool_], DiscoveryState]:
    """[E30] Decide which rows are anomalous so that at most a share ``rate`` of them is expected to be ordinary.

    The level of a row depends on earlier discoveries only, and each takes a few numbers of state, whatever the length
    of the stream: nothing is truncated. The result is the same for any chunking.

    The guarantee holds for independent p-values that are not too small under the null hypothesis. It is about the
    smoothed rate: false discoveries divided by all discoveries plus one, each weighted by exp(-age / 10 000 rows). With
    less than about one anomaly in 10 000 rows, the share of false alarms among all may be larger.

    Parameters
    ----------
    state : DiscoveryState
        State before these rows; ``DiscoveryState()`` at the beginning.
    p_values : array of shape (N,)
        p-values of the rows; NaN is never a discovery.
    rate : float, default=0.05
        The false discovery rate, within (0, 1).

    Returns
    -------
    anomalous : array of bool of shape (N,)
        Which rows are discoveries.
    state : DiscoveryState
        State after these rows.

    Examples
    --------
    >>> p_values = np.array([0.4, 1e-7, 0.0009, 0.0009])
    >>> anomalous, state = discover(DiscoveryState(), p_values)
    >>> anomalous.tolist()
    [False, True, True, True]
    >>> discover(DiscoveryState(), p_values[2:])[0].tolist()
    [False, False]
    """
    if not 0 < rate < 1:
        raise SettingError("rate", rate, "a number within (0, 1)")
    anomalous = np.zeros(len(p_values), np.bool_)
    last, sums = state.last, state.sums
    highest = rate * (1 + 1 / MEMORY)  # after a discovery in each row
    for index in np.flatnonzero(p_values <= highest).tolist():
        row = state.row + index + 1
        # powers of the time since the last discovery, so that chunks leave no trace in the rounding
        faded = [s * factor ** (row - last) for s, factor in zip(sums, _FACTORS, strict=True)]
        level = rate * (1 / MEMORY + sum(w * s for w, s in zip(_WEIGHTS, faded, strict=True)))
        if p_values[index] <= level:
            anomalous[index] = True
            last, sums = row, tuple(s + 1 for s in faded)
    return anomalous, DiscoveryState(state.row + len(p_values), last, sums)


# of a discovery k rows ago, δ^k γ_k = Σ w f^k with γ_k = Σ (1 − q) q^(k−1) / 4 and q = 1 − 1/span
_FACTORS = tuple((1 - 1 / MEMORY) * (1 - 1 / span) for span in SPANS)
_WEIGHTS = tuple(1 / len(SPANS) / span / (1 - 1 / span) for span in SPANS)
