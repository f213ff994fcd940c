// Running statistics of factor analysers: mean and variance of x, and its covariances with the hidden z.
#pragma once
#include "scoring.h"

namespace {

constexpr double seeded = 0.1;          // share of a variance that factors have at first
constexpr double farthest_hidden = 1e4; // no sample says more of z, in deviations that it had at first

template <class T> inline bool grows(const LowRank<T> &m, std::size_t k) {
    return m.inner[k * m.rank * m.rank] != T(0);
}

// +1 or -1, the same on every machine.
inline double random_sign(std::uint64_t number) {
    std::uint64_t bits = (number + 1) * 0x9e3779b97f4a7c15ULL;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    return (bits >> 63) ? 1 : -1;
}

template <class T> inline void settle(LowRank<T> &m, std::size_t k, const Limits &limits);

// [E41] Lets factors begin to grow: a tenth of each variance goes to them, in random directions.  INOUT m.
template <class T> inline void begin(LowRank<T> &m, std::size_t k, const Limits &limits) {
    if (grows(m, k)) return;
    const double share = seeded / double(m.rank);
    for (std::size_t l = 0; l < m.rank; ++l) {
        T *cross = m.cross + (k * m.rank + l) * m.stride;
        for (std::size_t d = 0; d < m.features; ++d) {
            const double sign = random_sign((k * m.rank + l) * m.features + d);
            cross[d] = T(sign * __builtin_sqrt(share * double(m.variances[k * m.stride + d])));
        }
        for (std::size_t j = 0; j < m.rank; ++j) m.inner[(k * m.rank + l) * m.rank + j] = T(l == j ? 1 : 0);
        m.shifts[k * m.rank + l] = T(0);
    }
    settle(m, k, limits);
}

// Sums over the samples of a batch, about the mean of the statistics.
struct FactorSums {
    double *first, *second, *cross; // [stride], [stride], [rank, stride]
    double *inner, *shift;          // [rank, rank], [rank]
};

// Mean and covariance of z = S u.  IN found; OUT z[rank], covariance[rank, rank].
template <class T>
inline void spread_out(const LowRank<T> &m, std::size_t k, const Posterior &found, double *z, double *covariance) {
    const std::size_t rank = m.rank;
    const T *s = m.spreads + k * rank * rank;
    for (std::size_t l = 0; l < rank; ++l) {
        z[l] = 0;
        for (std::size_t a = 0; a <= l; ++a) z[l] += double(s[l * rank + a]) * found.mean[a];
        for (std::size_t j = 0; j < rank; ++j) {
            double &entry = covariance[l * rank + j] = 0;
            for (std::size_t a = 0; a <= l; ++a)
                for (std::size_t b = 0; b <= j; ++b)
                    entry += double(s[l * rank + a]) * found.covariance[a * rank + b] * double(s[j * rank + b]);
        }
    }
}

// Adds a sample with weight w.  IN m, b; INOUT sums.
template <class T>
inline void add_sample(const LowRank<T> &m, std::size_t k, const Batch<T> &b, std::size_t n, double w, double farthest,
                       const FactorSums &sums, double *room) {
    const std::size_t rank = grows(m, k) ? m.rank : 0;
    const T *x = b.samples + n * m.stride, *mean = m.means + k * m.stride, *own = m.own_means + k * m.stride;
    const T *present = b.has_gaps[n] ? b.present + n * m.stride : nullptr;
    const T *factors = m.factors + k * m.rank * m.stride, *scales = m.scales + k * m.stride;
    const T *spreads = m.spreads + k * m.rank * m.rank;
    const T most = T(farthest);
    for (std::size_t d = 0; d < m.stride; ++d) m.away[d] = limited(T(x[d] - mean[d]), most);
    double *z = room, *covariance = z + m.rank, *y = covariance + m.rank * m.rank;
    const T *gains = m.gains + k * rank * rank;
    Posterior found = {};
    if (rank && present) {
        found = posterior(m, k, m.away, present, y + m.rank);
        spread_out(m, k, found, z, covariance);
    } else if (rank) {
        all_dots(m.away, m.projections + k * rank * m.stride, rank, m.stride, m.stride, y);
        for (std::size_t l = 0; l < rank; ++l) {
            z[l] = 0;
            for (std::size_t j = 0; j < rank; ++j) z[l] += double(gains[j * rank + l]) * y[j];
            for (std::size_t j = 0; j < rank; ++j) {
                covariance[l * rank + j] = 0;
                for (std::size_t i = 0; i < rank; ++i)
                    covariance[l * rank + j] += double(gains[i * rank + l]) * double(gains[i * rank + j]);
            }
        }
    }
    for (std::size_t l = 0; l < rank; ++l) z[l] = limited(z[l], farthest_hidden);
    for (std::size_t d = 0; d < m.features; ++d) m.away[d] = limited(T(x[d] - own[d]), most);
    double *first = sums.first, *second = sums.second;
    if (present) {
        for (std::size_t d = 0; d < m.features; ++d) {
            if (present[d] != T(0)) continue;
            double expected = 0, spread = 1 / (double(scales[d]) * double(scales[d]));
            for (std::size_t l = 0; l < rank; ++l) {
                expected += double(factors[l * m.stride + d]) * found.mean[l];
                double along = 0;
                for (std::size_t j = 0; j < rank; ++j)
                    along += found.covariance[l * rank + j] * double(factors[j * m.stride + d]);
                spread += double(factors[l * m.stride + d]) * along;
                for (std::size_t i = l; i < rank; ++i) // z = S u
                    sums.cross[i * m.stride + d] += w * along * double(spreads[i * rank + l]);
            }
            m.away[d] = limited(T(double(mean[d]) + expected - double(own[d])), most);
            second[d] += w * spread;
        }
    }
    for (std::size_t d = 0; d < m.features; ++d) {
        const double away = double(m.away[d]);
        first[d] += w * away;
        second[d] += w * away * away;
    }
    for (std::size_t l = 0; l < rank; ++l) {
        sums.shift[l] += w * z[l];
        const double weight = w * z[l];
        double *cross = sums.cross + l * m.stride;
        for (std::size_t d = 0; d < m.features; ++d) cross[d] += weight * double(m.away[d]);
        for (std::size_t j = 0; j < rank; ++j) sums.inner[l * rank + j] += w * (z[l] * z[j] + covariance[l * rank + j]);
    }
}

// [E40] Moves all statistics of a component by the samples of a batch, those of x and z as one vector.
// INOUT m; IN b.
template <class T>
inline void move(LowRank<T> &m, std::size_t k, const Batch<T> &b, double r, bool means_only, const Limits &limits) {
    const std::size_t rank = grows(m, k) ? m.rank : 0, stride = m.stride;
    double *small = m.room + (m.rank + 2) * stride;
    const FactorSums sums = {m.room, m.room + stride, m.room + 2 * stride, small, small + m.rank * m.rank};
    for (std::size_t i = 0; i < (rank + 2) * stride; ++i) m.room[i] = 0;
    for (std::size_t i = 0; i < m.rank * (m.rank + 1); ++i) small[i] = 0;
    for (std::size_t n = 0; n < b.size; ++n) {
        const double w = b.scores[n * m.components + k];
        if (w >= negligible<T>)
            add_sample(m, k, b, n, w, __builtin_sqrt(limits.most), sums, small + m.rank * (m.rank + 1));
    }
    const double part = r / b.received[k];
    T *mean = m.own_means + k * stride, *variance = m.variances + k * stride;
    for (std::size_t d = 0; d < m.features; ++d) {
        const double step = part * sums.first[d];
        mean[d] = T(double(mean[d]) + step);
        const double moved = (1 - r) * double(variance[d]) + part * sums.second[d] - step * step;
        if (!means_only) variance[d] = T(moved > 0 ? (moved < limits.most ? moved : limits.most) : 0);
    }
    for (std::size_t l = 0; l < rank && !means_only; ++l) {
        const double shift = part * sums.shift[l];
        T *cross = m.cross + (k * rank + l) * stride, *inner = m.inner + (k * rank + l) * rank;
        const double *products = sums.cross + l * stride;
        for (std::size_t d = 0; d < m.features; ++d)
            cross[d] = T((1 - r) * double(cross[d]) + part * products[d] - shift * (part * sums.first[d]));
        for (std::size_t j = 0; j < rank; ++j)
            inner[j] = T((1 - r) * double(inner[j]) + part * sums.inner[l * rank + j] - shift * (part * sums.shift[j]));
        m.shifts[k * rank + l] = T(double(m.shifts[k * rank + l]) + shift);
    }
}

// [E41] Factors and noise of a component from its statistics and the prior.  INOUT m.
template <class T> inline void settle(LowRank<T> &m, std::size_t k, const Limits &limits) {
    const std::size_t rank = m.rank, stride = m.stride;
    T *factors = m.factors + k * rank * stride, *scales = m.scales + k * stride;
    const T *cross = m.cross + k * rank * stride, *variance = m.variances + k * stride;
    double *noise = m.room, *row = noise + stride, *u = row + stride, *w = u + rank * rank;
    for (std::size_t d = 0; d < m.features; ++d) noise[d] = double(variance[d]);
    const bool growing = grows(m, k);
    T *spreads = m.spreads + k * rank * rank;
    if (growing) {
        double trace = 0;
        for (std::size_t i = 0; i < rank * rank; ++i) u[i] = double(m.inner[k * rank * rank + i]);
        for (std::size_t l = 0; l < rank; ++l) trace += u[l * rank + l];
        factorise_soundly<T>(u, rank, 1e-10 * trace, w);
        invert(u, rank, w);
    }
    for (std::size_t l = 0; l < rank; ++l) {
        for (std::size_t j = 0; j < rank; ++j)
            spreads[l * rank + j] = growing ? T(j <= l ? u[j * rank + l] : 0) : T(l == j ? 1 : 0);
        for (std::size_t d = 0; d < m.features; ++d) row[d] = 0;
        for (std::size_t j = 0; j <= l && growing; ++j) {
            const double entry = w[l * rank + j];
            for (std::size_t d = 0; d < m.features; ++d) row[d] += entry * double(cross[j * stride + d]);
        }
        for (std::size_t d = 0; d < m.features; ++d) {
            noise[d] -= row[d] * row[d];
            factors[l * stride + d] = T(row[d]);
        }
    }
    for (std::size_t d = 0; d < m.features; ++d) {
        const Blended<T> with = blended(m, k, d, limits);
        const double rest = noise[d] > 0 ? noise[d] : 0;
        double own = with.root * with.root * rest + with.own;
        own = own > limits.least ? (own < limits.most ? own : limits.most) : limits.least;
        scales[d] = T(1 / __builtin_sqrt(own));
        for (std::size_t l = 0; l < rank; ++l) factors[l * stride + d] *= T(with.root);
    }
    refresh(m, k);
}

template <class T>
void natural_steps_low_rank(LowRank<T> m, Input<T> x, std::size_t steps, Filter g, NaturalStep step, Batch<T> b,
                            Report report) {
    natural_steps_of(LowRankKind<T>{m}, x, steps, g, step, b, report);
}

template <class T>
void em_steps_low_rank(LowRank<T> m, Input<T> x, std::size_t steps, EmStep step, Batch<T> b, Report report) {
    em_steps_of(LowRankKind<T>{m}, x, steps, step, b, report);
}

template <class T>
void settle_low_rank(LowRank<T> m, double scale_min, double scale_max, std::size_t first, std::size_t last) {
    settle_all<T>(LowRankKind<T>{m}, scale_min, scale_max, first, last);
}

} // namespace
