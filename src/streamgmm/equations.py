"""The reference: every equation once, slow and plain, with the labels of ``docs/math.md``.

Nothing here is used for training. The native loops are tested against these functions, and these functions against
scipy and finite differences. Greek names follow the mathematics: ξ logits, μ means, s scales, π weights.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def weights(ξ: Array) -> Array:
    """[E1] π = softmax(ξ), shape (K,)."""
    e = np.exp(ξ - ξ.max())
    return e / e.sum()


def scores(x: Array, ξ: Array, μ: Array, s: Array) -> Array:
    """[E2] log π_k + log N(x; μ_k, s_k), shape (N, K) for x of shape (N, D)."""
    D = x.shape[1]
    z = s[None] * (x[:, None] - μ[None])
    return np.log(weights(ξ)) - D / 2 * np.log(2 * np.pi) + np.log(s).sum(1) - 0.5 * (z**2).sum(2)


def log_likelihood(x: Array, ξ: Array, μ: Array, s: Array) -> Array:
    """[E3] L(x) = logsumexp_k score_k(x), shape (N,)."""
    f = scores(x, ξ, μ, s)
    top = f.max(1)
    return top + np.log(np.exp(f - top[:, None]).sum(1))


def max_component(x: Array, ξ: Array, μ: Array, s: Array) -> Array:
    """[E4] L̂(x) = max_k score_k(x), shape (N,)."""
    return scores(x, ξ, μ, s).max(1)


def smoothing_matrix(rows: int, columns: int, σ: float) -> Array:
    """[E5] g: a Gaussian of width σ around each cell of a periodic grid, rows sum to one, shape (K, K)."""
    K = rows * columns
    g = np.zeros((K, K))
    for k in range(K):
        for j in range(K):
            dr, dc = abs(k // columns - j // columns), abs(k % columns - j % columns)
            dr, dc = min(dr, rows - dr), min(dc, columns - dc)
            g[k, j] = np.exp(-(dr**2 + dc**2) / (2 * σ**2))
    return g / g.sum(1, keepdims=True)


def smoothed(f: Array, g: Array) -> tuple[Array, npt.NDArray[np.int64]]:
    """[E6] L̂σ(x) = max_k Σ_j g_kj score_j(x) and its argmax k*, from scores f of shape (N, K)."""
    h = f @ g.T
    k = h.argmax(1)
    return h[np.arange(len(f)), k], k


def gradients(x: Array, ξ: Array, μ: Array, s: Array, g: Array) -> tuple[Array, Array, Array]:
    """Gradients of the batch mean of L̂σ in ξ, μ and s: what [E7], [E8] and [E9] follow where no bound is met."""
    _, k = smoothed(scores(x, ξ, μ, s), g)
    w = g[k]
    away = x[:, None] - μ[None]
    dμ = (w[..., None] * s**2 * away).mean(0)
    ds = (w[..., None] * (1 / s - s * away**2)).mean(0)
    dξ = w.mean(0) - weights(ξ)
    return dξ, dμ, ds


def sgd_step(
    x: Array, ξ: Array, μ: Array, s: Array, g: Array, ε: float, s_min: float, s_max: float
) -> tuple[Array, Array, Array, float]:
    """[E7] [E8] [E9] one bounded step of gradient ascent on a batch; gives new ξ, μ, s and the batch's mean L̂σ."""
    losses, k = smoothed(scores(x, ξ, μ, s), g)
    w = g[k]
    away = x[:, None] - μ[None]
    received = w.mean(0)[:, None]
    first, second = (w[..., None] * away).mean(0), (w[..., None] * away**2).mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(received > 0, first / received, 0)
    μ_new = μ + np.minimum(ε * received * s**2, 1) * centre
    s_new = np.clip(s + ε * (received / s - s * second), s / 2, 2 * s)
    ξ_new = ξ + ε * (received[:, 0] - weights(ξ))
    return ξ_new, μ_new, np.clip(s_new, s_min, s_max), float(losses.mean())


def batch_sums(x: Array, k: npt.NDArray[np.int64], g: Array, c: Array) -> tuple[Array, Array, Array]:
    """[E10] w-weighted sums of 1, (x − c), (x − c)² per component: gᵀ applied to the sums over winners."""
    K, D = len(g), x.shape[1]
    zeroth, first, second = np.zeros(K), np.zeros((K, D)), np.zeros((K, D))
    for n, winner in enumerate(k):
        zeroth[winner] += 1
        first[winner] += x[n] - c
        second[winner] += (x[n] - c) ** 2
    return g.T @ zeroth, g.T @ first, g.T @ second


def smoothed_loss(ℓ: float, loss: float, α: float) -> float:
    """[E11] ℓ ← (1 − α) ℓ + α L̂σ."""
    return (1 - α) * ℓ + α * loss


def relative_gain(ℓ: float, ℓ_last: float, ℓ_0: float) -> float:
    """[E12] Δ = (ℓ − ℓ_last) / (ℓ_last − ℓ_0); stationary when −2δ < Δ < δ."""
    return (ℓ - ℓ_last) / (ℓ_last - ℓ_0)
