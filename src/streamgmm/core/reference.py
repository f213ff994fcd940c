"""The reference: every equation once, slow and plain, with the labels of ``docs/math.md``.

Nothing here is used for training. The kernel is tested against these functions, and these functions against scipy and
finite differences. Greek names follow the mathematics: ξ logits, μ means, s scales, π weights.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Model = tuple[Array, Array, Array]
"""Logits ξ (K,), means μ (K, D) and scales s (K, D)."""
Bounds = tuple[float, float]
"""Smallest and largest scale."""
Typical = tuple[float, float, float, float, float]
"""Samples within the bound, level and deviation of their losses, room, and samples outside."""
Prior = tuple[Array, Array, Array, Array, Array]
"""Weight N received in all (K,); variance ν that the prior expects, its weight m, what is added, and the smallest
variance, each (D,)."""


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
    """Gradients of the batch mean of L̂σ with respect to ξ, μ and s: [E7], [E8] and [E9] where no bound is active."""
    _, k = smoothed(scores(x, ξ, μ, s), g)
    w = g[k]
    away = x[:, None] - μ[None]
    dμ = (w[..., None] * s**2 * away).mean(0)
    ds = (w[..., None] * (1 / s - s * away**2)).mean(0)
    dξ = w.mean(0) - weights(ξ)
    return dξ, dμ, ds


def sgd_step(
    x: Array, model: Model, g: Array, ε: float, bounds: Bounds, a: Array | float = 1.0
) -> tuple[Array, Array, Array, float]:
    """[E7] [E8] [E9] One bounded step of gradient ascent on a batch: new ξ, μ, s and the mean L̂σ of the batch.

    Sample n counts a_n, within (0, 1], as in the other rules.
    """
    ξ, μ, s = model
    losses, k = smoothed(scores(x, ξ, μ, s), g)
    a = np.broadcast_to(a, len(x))
    w = a[:, None] * g[k]
    away = x[:, None] - μ[None]
    received = w.mean(0)[:, None]
    first, second = (w[..., None] * away).mean(0), (w[..., None] * away**2).mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(received > 0, first / received, 0)
    μ_new = μ + np.minimum(ε * received * s**2, 1) * centre
    s_new = np.clip(s + ε * (received / s - s * second), s / 2, 2 * s)
    ξ_new = ξ + ε * (received[:, 0] - a.mean() * weights(ξ))
    return ξ_new, μ_new, np.clip(s_new, *bounds), float(losses.mean())


def batch_sums(x: Array, k: npt.NDArray[np.int64], g: Array, c: Array) -> tuple[Array, Array, Array]:
    """[E10] Sums of 1, (x − c), (x − c)² per component: gᵀ applied to the sums over winners."""
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


def earned_rate(n: Array, W: Array, growth: float, n_max: float) -> tuple[Array, Array]:
    """[E13] counts n ← min(n + growth·W, n_max) and rates r = min(W/n, 1) for weights W received, each (K,)."""
    n = np.where(W > 0, np.minimum(n + growth * W, n_max), n)
    return n, np.minimum(W / n, 1)


def moved_moments(x: Array, w: Array, r: Array, μ: Array, v: Array) -> tuple[Array, Array]:
    """[E14] Mean and variance of each component after a move by r towards those of its batch, weighted by w (N, K).

    [E21] A gap (NaN) counts as a value with the component's own mean and variance.
    """
    μ_new, v_new = μ.copy(), v.copy()
    gone = np.isnan(x)
    for k in range(len(μ)):
        W = w[:, k].sum()
        if W == 0:
            continue
        away = np.where(gone, 0, x - μ[k])
        shift, square = (w[:, k] @ away) / W, (w[:, k] @ np.where(gone, v[k], away**2)) / W
        μ_new[k] = μ[k] + r[k] * shift
        v_new[k] = (1 - r[k]) * v[k] + r[k] * square - (r[k] * shift) ** 2
    return μ_new, v_new


def scales_of(v: Array, s_min: float, s_max: float) -> Array:
    """[E15] s = 1/√v, within its bounds."""
    return 1 / np.sqrt(np.clip(v, s_max**-2.0, s_min**-2.0))


def natural_step(
    x: Array,
    model: Model,
    v: Array,
    n: Array,
    g: Array,
    growth: tuple[float, float],
    bounds: Bounds,
    a: Array | float = 1.0,
) -> tuple[Array, Array, Array, Array, float]:
    """[E13] [E14] [E15] One natural-gradient step on a batch: new μ, s, v, n and the mean L̂σ of the batch.

    ``growth`` is the growth of counts per weight received, and their maximum.
    """
    ξ, μ, s = model
    losses, k = smoothed(scores(x, ξ, μ, s), g)
    w = np.broadcast_to(a, len(x))[:, None] * g[k]
    n, r = earned_rate(n, w.sum(0), *growth)
    μ_new, v_new = moved_moments(x, w, r, μ, v)
    received = (w.sum(0) > 0)[:, None]
    return μ_new, np.where(received, scales_of(v_new, *bounds), s), v_new, n, float(losses.mean())


def em_rate(t: int, ρ_0: float, α: float, ρ_min: float) -> float:
    """[E16] ρ_t = max(ρ_min, ρ_0 (t + 1)^−(0.5 + α))."""
    return max(ρ_min, ρ_0 * (t + 1) ** -(0.5 + α))


def em_step(
    x: Array, model: Model, v: Array, S: Array, ρ: float, bounds: Bounds, a: Array | float = 1.0
) -> tuple[Array, Array, Array, Array, Array, float]:
    """[E17] One step of stochastic EM: new ξ, μ, s, v, masses S and the mean log-likelihood of the batch."""
    ξ, μ, s = model
    f = scores(x, ξ, μ, s)
    L = log_likelihood(x, ξ, μ, s)
    a = np.broadcast_to(a, len(x))
    γ = a[:, None] * np.exp(f - L[:, None])
    S_new = (1 - ρ * a.mean()) * S + ρ * γ.mean(0)
    μ_new, v_new = moved_moments(x, γ, ρ * γ.mean(0) / S_new, μ, v)
    return np.log(S_new), μ_new, scales_of(v_new, *bounds), v_new, S_new, float(L.mean())


def moved_weights(π: Array, received: Array, memory: float) -> Array:
    """[E18] π moves towards the shares received since the last check, N of them: by N/(memory + N)."""
    N = received.sum()
    return π + N / (memory + N) * (received / N - π)


def unusual_spread(v: Array, p_max: float) -> Array:
    """[E19] What a sample of each component would gain if its spread became typical, in half nats, shape (K,)."""
    usual = np.median(v, axis=0)
    return np.array(
        [
            sum(
                max(0.0, np.log(max(own, 1 / p_max) / max(other, 1 / p_max)))
                for own, other in zip(row, usual, strict=True)
            )
            for row in v
        ]
    )


def need(k: int, μ: Array, v: Array, s: Array) -> float:
    """[E19] What a sample of component k (mean μ_k, variance v_k) would lose under the next best, in half nats."""

    def loss(j: int) -> float:
        return float(sum(s[j] ** 2 * (v[k] + (μ[k] - μ[j]) ** 2)) - 2 * sum(np.log(s[j])))

    return min(loss(j) for j in range(len(μ)) if j != k) - loss(k)


def distortion(v: Array, p_max: float) -> Array:
    """[E22] Load of a component per sample: Σ_d of p_max·v below the cap, 1 + log(p_max·v) above it, shape (K,)."""
    return np.array([sum(q if q < 1 else 1 + np.log(q) for q in p_max * row) for row in v])


def cost_of_hardly_known(z: Array, μ: Array, s: Array, active: Array, clip: Array) -> float:
    """[E20] What features of which few values are known (activity 3) cost a sample, unless no unit explains it."""
    return float(np.where((active == 3) & (np.abs(z) <= 100 * clip), 0.5 * (s * (z - μ)) ** 2, 0).sum())


def influence(loss: float, typical: Typical, D: int, forgiven: float = 0.0) -> tuple[float, float, Typical]:
    """[E20] Share of a sample with this loss in a step, the loss to report, and the typical loss from now on.

    ``typical`` is (n, level, deviation, room, outside); (0, 0, 0, ρ, 0) before the first sample, where ρ is 1, or 0 for
    a bound that does not adapt to rows which keep coming. Of a loss outside the bound, it is ``forgiven`` what hardly
    known features cost.
    """
    n, level, deviation, room, outside = typical
    deviation = deviation or 1000 * D / 30
    own = 30 * max(deviation, D**0.5)
    bound = (room or 1) * own
    away = loss - level
    if away < -bound:
        forgiven = min(forgiven, -away)
        loss, away = loss + forgiven, away + forgiven
    if away < -bound:
        level, deviation = level - 0.01 * bound, deviation + 0.001 * (own - deviation)
        return (bound / away) ** 2, level - bound, (n, level, deviation, 1.02 * room, outside + 1)
    room = room and 1 + (1 - 4e-5) * (room - 1)
    n += 1
    wider = min(abs(away), bound) - deviation
    level += max(1 / n, 0.01) * away
    deviation += max(1 / (n + 1), 0.001 if wider > 0 else 0.01) * wider
    return 1.0, loss, (n, level, deviation, room, outside)


def known_scores(x: Array, ξ: Array, μ: Array, s: Array) -> Array:
    """[E21] Scores of the marginal over the features that a row has (the others are NaN), shape (N, K)."""
    return np.array(
        [scores(row[None, there], ξ, μ[:, there], s[:, there])[0] for row in x for there in [~np.isnan(row)]]
    )


def changed(ℓ: float, usual: float, variance: float, scatter: float, period: int) -> bool:
    """[E22] Whether the smoothed loss has fallen more than six standard errors below its recent mean."""
    return usual - ℓ > 6 * np.sqrt(max(variance / (2 * period), scatter))


def in_frame(x: Array, m: Array, u: Array, active: Array | bool = True) -> Array:
    """[E23] Samples z = (x − m)·u of rows x (N, D), for shifts m and units u, each (D,); 0 in features not active."""
    z = (x - m) * u
    return np.where(active | np.isnan(z), z, 0)


def rows_log_likelihood(L: Array, u: Array) -> Array:
    """[E23] Log-likelihoods of rows from those of their samples: L + Σ_d log |u_d|."""
    return L + np.log(np.abs(u)).sum()


def frame_sums(x: Array, m: Array, u: Array, active: Array, usual: Array, clip: Array) -> Array:
    """[E23] Numbers of all values, of unusual and of far ones, sum of these; sums of three powers, no gaps: (7, D).

    Values beyond the clip are left out of the powers where a feature has the activity 1, and clipped elsewhere, where
    those beyond a hundred times the clip are left out altogether.
    """
    there = ~np.isnan(x) & ((active == 1) | ~(np.abs((x - m) * u) > 100 * clip))
    z = np.where(there, (x - m) * u, 0)
    far = there & (np.abs(z) >= clip)
    c = np.where(far & (active == 1), 0, np.clip(z, -clip, clip))
    numbers = [there.sum(0), (there & (x != usual)).sum(0), far.sum(0), np.where(far, z, 0).sum(0)]
    return np.array([*numbers, c.sum(0), (c**2).sum(0), (c**4).sum(0)])


def with_prior(v: Array, N: Array, ν: Array, m: Array, added: Array, least: Array) -> Array:
    """[E24] (N v + m ν)/(N + m) + added, at least the smallest variance: v (K, D), N (K,), others (D,)."""
    n = N[:, None]
    return np.maximum((n * v + m * ν) / (n + m) + added, least)


def shared_out(f: Array, ε: float, a: Array | float = 1.0) -> Array:
    """[E25] Weights a·γ from scores f (N, K): γ_j = 0 where f_j is more than log(1/ε) below the best."""
    away = f - f.max(1, keepdims=True)
    γ = np.where(away >= np.log(ε), np.exp(away), 0)
    return np.broadcast_to(a, len(f))[:, None] * γ / γ.sum(1, keepdims=True)


def weighted_natural_step(
    x: Array,
    w: Array,
    model: Model,
    v: Array,
    n: Array,
    prior: Prior,
    growth: tuple[float, float],
    bounds: Bounds,
) -> tuple[Array, Array, Array, Array, Array]:
    """[E13] [E14] [E24] One natural-gradient step with given weights w (N, K): new μ, s, v, n and N.

    The weights are those of [E6] or of [E25]. The variance v is learned as without a prior; only s contains it.
    """
    _, μ, s = model
    N, ν, m, added, least = prior
    W = w.sum(0)
    n, r = earned_rate(n, W, *growth)
    μ_new, v_new = moved_moments(x, w, r, μ, v)
    N = N + W
    s_new = scales_of(with_prior(v_new, N, ν, m, added, least), *bounds)
    return μ_new, np.where(W[:, None] > 0, s_new, s), v_new, n, N


def expected_from_others(x: Array, ξ: Array, μ: Array, v: Array, d: int) -> tuple[float, float]:
    """[E29] Mean and variance of feature d of a row x (D,), given its other features."""
    others = np.arange(len(x)) != d
    near = μ + np.clip(x - μ, -5 * np.sqrt(v), 5 * np.sqrt(v))
    f = np.diag(scores(near[:, others], ξ, μ[:, others], 1 / np.sqrt(v[:, others])))
    γ = np.exp(f - f.max())
    γ /= γ.sum()
    mean = float(γ @ μ[:, d])
    return mean, float(γ @ (v[:, d] + (μ[:, d] - mean) ** 2))


def discovery_level(t: int, discoveries: list[int], α: float, memory: int, spans: list[int]) -> float:
    """[E30] Level that the p-value of row t must not exceed, given the earlier rows that are discoveries."""
    δ = 1 - 1 / memory
    ages = t - np.array(discoveries)
    q = 1 - 1 / np.array(spans)[:, None]
    γ = ((1 - q) * q ** (ages - 1)).mean(0)
    return float(α * (1 - δ + (δ**ages * γ).sum()))


def pooled_variances(v: Array, π: Array, n: Array, growth: float) -> Array:
    """[E28] Variances v (K, D) that rest on n samples each (K,), moved towards those of all components together."""
    weight = 20**2 * (1 - growth)
    share = (weight / (n**2 + weight))[:, None]
    return np.exp((1 - share) * np.log(v) + share * np.log(π @ v))


def merge_cost(m: Array, μ: Array, v: Array) -> float:
    """[E27] What samples of two components lose if they become one: masses m (2,), means and variances (2, D)."""
    share = m / m.sum()
    mean = share @ μ
    together = share @ (v + (μ - mean) ** 2)
    apart = sum(mass * (np.log(mass) - 0.5 * np.log(own).sum()) for mass, own in zip(m, v, strict=True))
    return float(apart - m.sum() * (np.log(m.sum()) - 0.5 * np.log(together).sum()))


def leave_one_out(z: Array, r: Array, μ: Array, v: Array, prior: Prior, a: Array | float = 1.0) -> float:
    """[E26] Log-likelihood of all samples z (N, D), each under the mixture that has not learned it.

    Component k has mass N_k, mean μ_k and variance v_k without prior; r_nk of its mass is sample n, which counts a_n.
    """
    N, ν, m, added, least = prior
    a = np.broadcast_to(a, len(z))
    f = np.zeros(r.shape)
    for i, k in np.ndindex(*r.shape):
        left = max(float(N[k] - r[i, k]), 1e-3)
        away = z[i] - μ[k]
        rest = np.maximum(N[k] / left * (v[k] - r[i, k] / left * away**2), 0)
        u = np.maximum((left * rest + m * ν) / (left + m) + added, least)
        f[i, k] = np.log(left / a.sum()) - 0.5 * (np.log(2 * np.pi * u) + (N[k] / left * away) ** 2 / u).sum()
    top = f.max(1)
    return float(a @ (top + np.log(np.exp(f - top[:, None]).sum(1))))


def shares_from_above(x: Array, c: Array, μ: Array, v: Array, τ: float) -> Array:
    """[E33] Shares of components (K,) in a row x (D,), with weights c from above; NaN in x is hidden."""
    known = ~np.isnan(x)
    f = -0.5 * (np.log(2 * np.pi * v) + (x - μ) ** 2 / v)[:, known].sum(1)
    γ = c * np.exp((f - f.max()) / τ)
    return γ / γ.sum()


def sharpened(γ: Array, μ: Array, v: Array, places: Array, size: int) -> Array:
    """[E34] Pixels (size,) that suit patches best: shares γ (P, K), pixels of each patch ``places`` (P, D)."""
    above, below = np.zeros(size), np.zeros(size)
    for shares, pixels in zip(γ, places, strict=True):
        above[pixels] += shares @ (μ / v)
        below[pixels] += shares @ (1 / v)
    return above / below
