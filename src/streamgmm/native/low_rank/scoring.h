// Scores under covariances of low rank plus diagonal, without a D×D matrix.
#pragma once
#include "../shared/log_product.h"
#include "../shared/stepping.h"
#include "types.h"

namespace {

// Of this namespace, so that the steps find the functions here.
template <class T> struct LowRankKind : LowRank<T> {};

// Deviations of R samples from a mean and their squared lengths in units of the noise.
// IN samples, mean, scales; OUT away[R, stride], squares[R].
template <class T, int R>
inline void deviate_in_noise(const T *samples, const T *mean, const T *scales, std::size_t stride, T *away,
                             double *squares) {
    for (int j = 0; j < R; ++j) squares[j] = 0;
    for (std::size_t start = 0; start < stride; start += block_features) {
        const std::size_t stop = stride - start < block_features ? stride : start + block_features;
        Pack<T> acc[R];
        UNROLLED_FOR (int j = 0; j < R; ++j) acc[j] = fill(T(0));
        for (std::size_t d = start; d < stop; d += pack_lanes<T>) {
            const Pack<T> m = load(mean + d), s = load(scales + d);
            UNROLLED_FOR (int j = 0; j < R; ++j) {
                Pack<T> x = load(samples + j * stride + d);
                UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
                    x.v[i] -= m.v[i];
                    const auto scaled = x.v[i] * s.v[i];
                    acc[j].v[i] += scaled * scaled;
                }
                store(away + j * stride + d, x);
            }
        }
        T total[R];
        sums<T, R>(acc, total);
        for (int j = 0; j < R; ++j) squares[j] += double(total[j]);
    }
}

// What factors explain of a squared length is no longer than it; what is beyond its bound stays there, or infinity
// minus infinity would be no distance at all.
template <class T> inline double unexplained(double square, double explained) {
    const double rest = square - explained;
    return square < distance_max<T> ? (rest > 0 ? rest : 0) : distance_max<T>;
}

constexpr double farthest_deviation = 1e140; // of the noise: squares stay finite

// [E38] What a sample with gaps says about u: its mean and covariance, and the density of what the sample has.
struct Posterior {
    double *mean;       // [rank] of u
    double *covariance; // [rank, rank] of u
    double distance, log_det;
};

// IN away[stride], present[stride] (null: nothing is missing); OUT the posterior, in `room`.
template <class T>
inline Posterior posterior(const LowRank<T> &m, std::size_t k, const T *away, const T *present, double *room) {
    const std::size_t rank = m.rank;
    double *mean = room, *u = mean + rank, *w = u + rank * rank, *covariance = w + rank * rank;
    const T *factors = m.factors + k * rank * m.stride, *scales = m.scales + k * m.stride;
    for (std::size_t l = 0; l < rank; ++l) {
        mean[l] = 0;
        for (std::size_t j = 0; j < rank; ++j) u[l * rank + j] = l == j ? 1 : 0;
    }
    double distance = 0, log_det = 0;
    for (std::size_t d = 0; d < m.features; ++d) {
        if (present && present[d] == T(0)) continue;
        const double s = double(scales[d]), a = limited(s * double(away[d]), farthest_deviation);
        distance += a * a;
        log_det += __builtin_log(s);
        for (std::size_t l = 0; l < rank; ++l) {
            const double f = s * double(factors[l * m.stride + d]);
            mean[l] += f * a;
            for (std::size_t j = l; j < rank; ++j) u[l * rank + j] += f * (s * double(factors[j * m.stride + d]));
        }
    }
    log_det -= factorise_soundly<double>(u, rank, 1.0, w);
    solve_lower(u, rank, mean);
    double explained = 0;
    for (std::size_t l = 0; l < rank; ++l) explained += mean[l] * mean[l];
    solve_upper(u, rank, mean);
    invert(u, rank, w);
    for (std::size_t l = 0; l < rank; ++l)
        for (std::size_t j = 0; j < rank; ++j) {
            covariance[l * rank + j] = 0;
            for (std::size_t i = l > j ? l : j; i < rank; ++i)
                covariance[l * rank + j] += w[i * rank + l] * w[i * rank + j];
        }
    return {mean, covariance, unexplained<double>(distance, explained), log_det};
}

constexpr int group = 4;                               // samples that share each read of the projections
constexpr int at_once = STREAMGMM_WIDTH == 64 ? 4 : 2; // projections that share each read of deviations

// [E39] Scores of R samples without gaps under component k.  IN m; INOUT b.
template <class T, int R> inline void score_group(const LowRank<T> &m, std::size_t k, std::size_t first, Batch<T> &b) {
    const T *mean = m.means + k * m.stride, *scales = m.scales + k * m.stride;
    const T *projections = m.projections + k * m.rank * m.stride;
    double squares[R], *ys = m.room; // [R, rank]
    deviate_in_noise<T, R>(b.samples + first * m.stride, mean, scales, m.stride, m.away, squares);
    std::size_t l = 0;
    if constexpr (R == 1) all_dots(m.away, projections, l = m.rank, m.stride, m.stride, ys);
    for (; l + at_once <= m.rank; l += at_once)
        cross_dots<T, R, at_once>(m.away, projections + l * m.stride, m.stride, m.stride, ys + l, m.rank);
    for (; l < m.rank; ++l) cross_dots<T, R, 1>(m.away, projections + l * m.stride, m.stride, m.stride, ys + l, m.rank);
    const double constant = b.log_weights[k] + m.log_dets[k];
    for (std::size_t r = 0; r < R; ++r) {
        const double distance = unexplained<T>(squares[r], sum_of_squares(ys + r * m.rank, m.rank));
        b.scores[(first + r) * m.components + k] = log_density(constant, m.features, distance);
    }
}

// [E39] [E38] Scores of all samples under component k.  IN m; INOUT b.
template <class T> inline void add_scores(const LowRank<T> &m, std::size_t k, Batch<T> &b) {
    const T *mean = m.means + k * m.stride;
    std::size_t n = 0;
    for (; n + group <= b.size; n += group) score_group<T, group>(m, k, n, b);
    for (; n < b.size; ++n) score_group<T, 1>(m, k, n, b);
    for (n = 0; n < b.size; ++n) {
        if (!b.has_gaps[n]) continue;
        const T *x = b.samples + n * m.stride, *present = b.present + n * m.stride;
        std::size_t known = 0;
        for (std::size_t d = 0; d < m.features; ++d) {
            m.away[d] = x[d] - mean[d];
            known += present[d] != T(0);
        }
        const Posterior found = posterior(m, k, m.away, present, m.room);
        b.scores[n * m.components + k] =
            log_density(b.log_weights[k] + found.log_det, known, bounded<T>(found.distance));
    }
}

// [E39] Projections, gains and log-determinant that follow from factors, spreads and scales. Units may be so small that
// squares of scales have no end: factors are multiplied by scales one after the other.  INOUT m.
template <class T> inline void refresh(LowRank<T> &m, std::size_t k) {
    const std::size_t rank = m.rank, stride = m.stride;
    const T *factors = m.factors + k * rank * stride, *scales = m.scales + k * stride;
    const T *spreads = m.spreads + k * rank * rank;
    T *projections = m.projections + k * rank * stride;
    double *u = m.room, *w = u + rank * rank, *part = w + rank * rank;
    LogProduct<T> product;
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) product.multiply(load(scales + d));
    for (std::size_t l = 0; l < rank; ++l) {
        for (std::size_t d = 0; d < stride; ++d) m.away[d] = factors[l * stride + d] * scales[d] * scales[d];
        all_dots(m.away, factors, rank, stride, stride, part);
        for (std::size_t j = 0; j < rank; ++j) u[l * rank + j] = part[j] + (l == j ? 1 : 0);
    }
    m.log_dets[k] = product.log() - factorise_soundly<T>(u, rank, 1.0, w);
    invert(u, rank, w);
    for (std::size_t l = 0; l < rank; ++l) {
        T *row = projections + l * stride;
        for (std::size_t d = 0; d < stride; ++d) row[d] = T(0);
        for (std::size_t j = 0; j < rank; ++j) {
            double gain = 0;
            for (std::size_t i = 0; i <= l && i <= j; ++i) gain += w[l * rank + i] * double(spreads[j * rank + i]);
            m.gains[(k * rank + l) * rank + j] = T(gain);
        }
        for (std::size_t j = 0; j <= l; ++j) add_multiple(factors + j * stride, T(w[l * rank + j]), stride, row);
        for (std::size_t d = 0; d < stride; ++d) row[d] = row[d] * scales[d] * scales[d];
    }
}

template <class T> void score_low_rank(LowRank<T> m, Input<T> x, std::size_t rows, Batch<T> b, Answers out) {
    score_rows_of(LowRankKind<T>{m}, x, rows, b, out);
}

template <class T> void refresh_low_rank(LowRank<T> m, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) refresh(m, k);
}

} // namespace
