"""The equations of docs/math.md §12, for covariances that couple features: one slow, plain function for each.

Like ``reference``, which it continues, this defines what is correct; everything else is compared with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamgmm.core.reference import smoothed, weights

Array = npt.NDArray[np.float64]
Spectral = tuple[Array, Array, Array, Array]
"""Logits ξ (K,), means μ (K, D), roots λ (K, D) of the eigenvalues of precisions, eigenvectors V (K, D, D) as rows."""
Factors = tuple[Array, Array, Array]
"""Means μ (D,), factors A (D, L) and variances ψ (D,) of the noise of one component."""
Statistics = tuple[Array, Array, Array, Array, Array]
"""Means of x (D,) and z (L,), variances v (D,), covariances C of x and z (D, L), second moments Z of z (L, L)."""


def log_density(x: Array, μ: Array, Σ: Array) -> Array:
    """[E35] log N(x; μ, Σ), shape (N,), with F'F = Σ⁻¹ and log √det Σ⁻¹ as a sum of logarithms."""
    F = np.linalg.inv(np.linalg.cholesky(Σ))
    y = (x - μ) @ F.T
    return np.log(np.diag(F)).sum() - len(μ) / 2 * np.log(2 * np.pi) - 0.5 * (y**2).sum(1)


def scores(x: Array, ξ: Array, μ: Array, Σ: Array) -> Array:
    """[E35] log π_k + log N(x; μ_k, Σ_k), shape (N, K)."""
    return np.stack([np.log(p) + log_density(x, m, S) for p, m, S in zip(weights(ξ), μ, Σ, strict=True)], axis=1)


def moved_covariances(x: Array, w: Array, r: Array, μ: Array, S: Array) -> tuple[Array, Array]:
    """[E36] Mean and covariance of each component after a move by r towards its batch, weighted by w (N, K)."""
    μ_new, S_new = μ.copy(), S.copy()
    for k in range(len(μ)):
        W = w[:, k].sum()
        if W == 0:
            continue
        away = x - μ[k]
        shift, square = w[:, k] @ away / W, (w[:, k] * away.T) @ away / W
        μ_new[k] = μ[k] + r[k] * shift
        S_new[k] = (1 - r[k]) * S[k] + r[k] * square - r[k] ** 2 * np.outer(shift, shift)
    return μ_new, S_new


def blended_covariance(S: Array, N: float, ν: Array, m: Array, added: Array, least: Array) -> Array:
    """[E36] Σ = ρ S ρ + diag(b), where b_d = max(m'ν/(N + m') + added, least), ρ² = N/(N + m'), m' = m D/(N + D)."""
    m = m * len(ν) / (N + len(ν))
    ρ = np.sqrt(N / (N + m))
    return np.outer(ρ, ρ) * S + np.diag(np.maximum(m * ν / (N + m) + added, least))


def sound_covariance(Σ: Array, least: float, rounding: float) -> Array:
    """[E36] Σ, with its diagonal raised for as long as a pivot tells no more than what rounding left of it."""
    share, D = 0.0, len(Σ)
    while True:
        rest, entries, sound = Σ.copy(), np.diag(Σ), True
        for j in range(D):
            pivot = max(rest[j, j], least)
            lost = pivot <= least * (1 + 1e-12) and D * rounding * entries[j] > 0.5 * least
            sound = not lost and pivot > rounding * entries[j]
            if not sound:
                break
            rest[j + 1 :, j + 1 :] -= np.outer(rest[j, j + 1 :], rest[j, j + 1 :]) / pivot
        share = 10 * share if share > 0 else D * rounding
        if sound or share >= 0.1:
            return Σ
        Σ = Σ + share * np.diag(entries)


def spectral_step(x: Array, model: Spectral, g: Array, ε: float, bounds: tuple[float, float]) -> Spectral:
    """[E37] One bounded step of gradient ascent in eigenvalues and eigenvectors: new ξ, μ, λ and V."""
    ξ, μ, λ, V = model
    Σ = np.linalg.inv(np.einsum("kid,ki,kie->kde", V, λ**2, V))
    _, k = smoothed(scores(x, ξ, μ, Σ), g)
    w = g[k]
    μ_new, λ_new, V_new = μ.copy(), λ.copy(), V.copy()
    for j in range(len(μ)):
        W, away = w[:, j].mean(), x - μ[j]
        y = away @ V[j].T
        first, second = (w[:, j] @ y) / len(x), (w[:, j] @ y**2) / len(x)
        P = (λ[j] ** 2 * V[j].T) @ V[j]
        turn = (w[:, j] * y.T) @ (away @ P) / len(x) - λ[j][:, None] ** 2 * ((w[:, j] * y.T) @ away) / len(x)
        μ_new[j] = μ[j] + (np.minimum(ε * λ[j] ** 2 * W, 1) * first / W) @ V[j]
        lengths = ε * np.linalg.norm(turn, axis=1)
        step = np.where(lengths > 0.5, 0.5 * ε / np.maximum(lengths, 1e-300), ε)
        V_new[j] = orthonormalised(V[j] + step[:, None] * turn)
        moved = np.clip(λ[j] + ε * (W / λ[j] - λ[j] * second), λ[j] / 2, 2 * λ[j])
        λ_new[j] = np.clip(moved, *bounds)
    return ξ + ε * (w.mean(0) - weights(ξ)), μ_new, λ_new, V_new


def orthonormalised(V: Array) -> Array:
    """[E37] Rows made orthonormal one after the other."""
    done: list[Array] = []
    for row in V:
        left = row - sum((np.dot(row, other) * other for other in done), np.zeros(len(row)))
        done.append(left / np.linalg.norm(left))
    return np.array(done)


def known_scores(x: Array, ξ: Array, μ: Array, Σ: Array) -> Array:
    """[E38] Scores of the marginal over the features that a row has (the others are NaN), shape (N, K)."""
    found = []
    for row in x:
        o = ~np.isnan(row)
        found.append(scores(row[None, o], ξ, μ[:, o], Σ[:, o][:, :, o])[0])
    return np.array(found)


def low_rank_log_density(x: Array, component: Factors) -> Array:
    """[E39] log N(x; μ, AA' + diag ψ), shape (N,), without a D×D matrix."""
    μ, A, ψ = component
    U = A / ψ[:, None]
    C = np.eye(A.shape[1]) + A.T @ U
    y = (x - μ) @ U
    distance = ((x - μ) ** 2 / ψ).sum(1) - (y * np.linalg.solve(C, y.T).T).sum(1)
    return -0.5 * (len(μ) * np.log(2 * np.pi) + np.log(ψ).sum() + np.linalg.slogdet(C)[1] + distance)


def hidden(x: Array, component: Factors) -> tuple[Array, Array]:
    """[E40] Mean (N, L) and covariance (L, L) of u, standard normal in x = μ + A u + e, given x."""
    μ, A, ψ = component
    Ω = np.asarray(np.linalg.inv(np.eye(A.shape[1]) + A.T @ (A / ψ[:, None])), np.float64)
    return (x - μ) / ψ @ A @ Ω, Ω


def moved_factors(x: Array, w: Array, r: float, component: Factors, R: Array, before: Statistics) -> Statistics:
    """[E40] Statistics of one component after a move by r towards those of its batch, weighted by w (N,).

    z = R u is what u was called when the statistics began; about their means, x and z move as one vector.
    """
    μ, ζ, v, C, Z = before
    u, Ω = hidden(x, component)
    z, W = u @ R.T, w.sum()
    d, zz = x - μ, (w * z.T) @ z / W + R @ Ω @ R.T
    a, b = w @ d / W, w @ z / W
    return (
        μ + r * a,
        ζ + r * b,
        (1 - r) * v + r * (w @ d**2) / W - (r * a) ** 2,
        (1 - r) * C + r * (w * d.T) @ z / W - r**2 * np.outer(a, b),
        (1 - r) * Z + r * zz - r**2 * np.outer(b, b),
    )


def factors_of(v: Array, C: Array, Z: Array, least: float) -> tuple[Array, Array, Array]:
    """[E41] A = C R'⁻¹ with RR' = Z, ψ = max(v − rowsum(A∘A), least), and R."""
    R = np.asarray(np.linalg.cholesky(Z), np.float64)
    A = np.asarray(np.linalg.solve(R, C.T).T, np.float64)
    return A, np.maximum(v - (A**2).sum(1), least), R


def conditioned(row: Array, ξ: Array, μ: Array, Σ: Array) -> tuple[Array, Array, Array]:
    """[E42] Weights, means and covariances of what a row lacks (NaN), given what it has."""
    h = np.isnan(row)
    o = ~h
    f = known_scores(row[None], ξ, μ, Σ)[0]
    γ = np.exp(f - f.max())
    means, covariances = [], []
    for m, S in zip(μ, Σ, strict=True):
        gain = S[np.ix_(h, o)] @ np.linalg.inv(S[np.ix_(o, o)])
        means.append(m[h] + gain @ (row[o] - m[o]))
        covariances.append(S[np.ix_(h, h)] - gain @ S[np.ix_(o, h)])
    return γ / γ.sum(), np.array(means), np.array(covariances)


def density_without(z: Array, r: float, N: float, μ: Array, S: Array, prior: tuple[Array, float]) -> float:
    """[E43] Log density of a sample under a component of mass N that has not learned it; r of its mass is the sample.

    ``prior`` is the variance ν (D,) that it expects and its weight m.
    """
    ν, m = prior
    left = N - r
    away = z - μ
    rest = N / left * (S - r / left * np.outer(away, away))
    Σ = (left * rest + m * np.diag(ν)) / (left + m)
    return float(log_density((z + 0.0)[None], z - N / left * away, Σ)[0])
