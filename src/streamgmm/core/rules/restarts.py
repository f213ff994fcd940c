"""Restarts: components that few samples need move beside those that carry too much ([E19], [E22])."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamgmm.core.parameters import Parameters
from streamgmm.core.tensors import Tensors, row_blocks
from streamgmm.native import Floats

if TYPE_CHECKING:
    from streamgmm.core.rules.context import Context
    from streamgmm.core.rules.natural import NaturalState

SMALLEST_BURDEN = 1e-6  # where no spread is unusual, the heaviest components carry the most
APART = 0.3  # standard deviations between a restarted component and the one beside it
COUNT = 10.0  # of both after a restart: they must find their place


def restart(
    state: NaturalState,
    parameters: Parameters,
    light: npt.NDArray[np.int64],
    used: npt.NDArray[np.bool_],
    context: Context,
) -> int:
    """[E19] Move each of the ``light`` components beside the one that carries the most; return how many moved.

    A component that was ``used`` lately stays if its samples would lose more than is gained.
    """
    variances = parameters.kind.variances(state.moments)
    typical = median(variances)
    burden = state.weights * (SMALLEST_BURDEN + unusual_spread(variances, typical, context.bounds.precision_max))
    burden[light] = 0  # do not move beside a component that is to move itself
    moved = 0
    for k in light.tolist():
        heavy = int(burden.argmax())
        if used[k] and state.weights[k] * need(parameters, state.moments, k) > burden[heavy]:
            continue
        _move_beside(state, parameters, (k, heavy), typical, context.rng)
        burden[k] = burden[heavy] = burden[heavy] / 2
        moved += 1
    return moved


def recruit(state: NaturalState, parameters: Parameters, component: int, context: Context) -> None:
    """[E22] Move a component beside the one that carries most of what is new."""
    variances = parameters.kind.variances(state.moments)
    heavy = int((state.received * distortion(variances, context.bounds.precision_max)).argmax())
    _move_beside(state, parameters, (component, heavy), median(variances), context.rng)


def median(rows: Floats) -> Floats:
    """Return the median of each column of rows (K, D): that of NumPy to the last bit, in a fifth of its time."""
    middle, half = np.empty(rows.shape[1], rows.dtype), len(rows) // 2
    for part in row_blocks(rows.T):
        columns = np.sort(rows.T[part], axis=1)
        middle[part] = (columns[:, half] + columns[:, (len(rows) - 1) // 2]) / 2
    return middle


def _move_beside(
    state: NaturalState,
    parameters: Parameters,
    pair: tuple[int, int],
    typical: Floats,
    rng: np.random.Generator,
) -> None:
    """Make component k half of ``heavy``, slightly apart from it; log-determinants are left to the caller."""
    k, heavy = pair
    own = parameters.kind.variances(state.moments)[heavy]
    # apart along what is unusual about its spread: that is where two clusters hide in one component
    spread = np.sqrt(np.maximum(own - typical, 0) + 0.01 * own)
    offset = parameters.kind.offset(state.moments, heavy, APART * spread, rng).astype(parameters.dtype)
    parameters.tensors.copy_component(heavy, k)
    state.moments.copy_component(heavy, k)
    parameters.means[k] += offset
    state.weights[k] = state.weights[heavy] = state.weights[heavy] / 2
    state.counts[k] = state.counts[heavy] = min(COUNT, state.counts[heavy])


def unusual_spread(variances: Floats, typical: Floats, precision_max: float) -> npt.NDArray[np.float64]:
    """[E19] What a sample of each component would gain if its spread became ``typical`` (D,), in half nats: (K,)."""
    others, found = np.maximum(typical, 1 / precision_max), np.empty(len(variances))
    for part in row_blocks(variances):
        own = np.maximum(variances[part], 1 / precision_max)
        found[part] = np.maximum(np.log(own / others), 0).sum(1, dtype=np.float64)
    return found


def need(parameters: Parameters, moments: Tensors, component: int) -> float:
    """[E19] What a sample of a component would lose if the next best component took it, in half nats."""
    losses = parameters.kind.expected_losses(parameters, moments, component)
    return float(np.delete(losses, component).min(initial=np.inf) - losses[component])


def distortion(variances: Floats, precision_max: float) -> npt.NDArray[np.float64]:
    """[E22] What a sample of each component loses on average to the spread around its mean, in half nats: (K,)."""
    spread = np.maximum(variances.astype(np.float64) * precision_max, 1e-12)
    return np.where(spread < 1, spread, 1 + np.log(spread)).sum(1)
