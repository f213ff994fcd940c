// Scores under covariances of low rank plus diagonal, without a D×D matrix.
#pragma once
#include "../shared/log_product.h"
#include "../shared/stepping.h"
#include "types.h"

namespace {

// Of this namespace, so that the steps find the functions here.
template <class T> struct LowRankKind : LowRank<T> {};

// Precision of feature d of a component, given all others.
template <class T> inline double feature_precision(const LowRankKind<T> &m, std::size_t k, std::size_t d) {
    const double scale = double(m.scales[k * m.stride + d]);
    double precision = scale * scale;
    for (std::size_t l = 0; l < m.rank; ++l) {
        const double r = double(m.projections[(k * m.rank + l) * m.stride + d]);
        precision -= r * r;
    }
    return precision > 0 ? precision : 0;
}

// Features that are compared at a time: then a group of samples and the parameters of a component stay in the
// first-level cache. Sums over as many are added in float64, in an order that depends on nothing but the model's shape.
template <class T> inline std::size_t features_at_once(std::size_t stride) {
    constexpr std::size_t most = 16;
    const std::size_t packs = stride / pack_lanes<T>, turns = (packs + most - 1) / most;
    return (packs + turns - 1) / turns * pack_lanes<T>;
}

// Deviations of R samples from a mean over `count` features, their squared lengths in units of the noise, and their
// products with the first C projections: what waits for memory and what only computes go side by side.
// IN samples, mean, scales, projections; OUT away[R, stride]; INOUT sums: squares[R], then products[R, C].
template <class T, int R, int C>
inline void deviate(const T *samples, const T *mean, const T *scales, const T *projections, std::size_t count,
                    std::size_t stride, T *away, double *sums) {
    using V = typename Lanes<T>::vector;
    Pack<T> squares[R], packs[R * C];
    ROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
        V square[R] = {}, acc[R * C] = {};
        for (std::size_t d = i * vector_lanes<T>; d < count; d += pack_lanes<T>) {
            V b[C];
            const V m = load_vector(mean + d), s = load_vector(scales + d);
            UNROLLED_FOR (int c = 0; c < C; ++c) b[c] = load_vector(projections + c * stride + d);
            UNROLLED_FOR (int r = 0; r < R; ++r) {
                const V x = load_vector(samples + r * stride + d) - m;
                const V scaled = x * s;
                store_vector(away + r * stride + d, x);
                square[r] += scaled * scaled;
                UNROLLED_FOR (int c = 0; c < C; ++c) acc[r * C + c] += x * b[c];
            }
        }
        UNROLLED_FOR (int r = 0; r < R; ++r) squares[r].v[i] = square[r];
        UNROLLED_FOR (int j = 0; j < R * C; ++j) packs[j].v[i] = acc[j];
    }
    add_sums<T, R>(squares, sums);
    add_sums<T, R * C>(packs, sums + R);
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
constexpr std::size_t most_rows = 32;                  // rows that share each read of a component's features

// Adds what `count` features from `start` on contribute to the distances of R samples from component k.
// IN m, samples; INOUT sums: squared lengths [R], then projections, for some at a time [R, C] and for the others [R].
template <class T, int R>
inline void add_features(const LowRank<T> &m, std::size_t k, const T *samples, std::size_t start, std::size_t count,
                         double *sums) {
    const std::size_t at = k * m.stride + start;
    const T *projections = m.projections + k * m.rank * m.stride + start;
    const T *mean = m.means + at, *scales = m.scales + at;
    std::size_t l = m.rank < at_once ? 1 : at_once;
    if (l == at_once)
        deviate<T, R, at_once>(samples + start, mean, scales, projections, count, m.stride, m.away, sums);
    else
        deviate<T, R, 1>(samples + start, mean, scales, projections, count, m.stride, m.away, sums);
    for (sums += R * (1 + l); l + at_once <= m.rank; l += at_once, sums += R * at_once)
        cross_dots<T, R, at_once>(m.away, projections + l * m.stride, m.stride, count, sums);
    for (; l < m.rank; ++l, sums += R) cross_dots<T, R, 1>(m.away, projections + l * m.stride, m.stride, count, sums);
}

// [E39] Scores of R samples from their sums.  IN m, sums; OUT b.scores.
template <class T, int R>
inline void score_sums(const LowRank<T> &m, std::size_t k, std::size_t first, const double *sums, Batch<T> &b) {
    const std::size_t whole = m.rank / at_once * at_once;
    const double constant = b.log_weights[k] + m.log_dets[k];
    for (std::size_t r = 0; r < R; ++r) {
        double explained = 0;
        for (std::size_t l = 0; l < m.rank; ++l) {
            const double *of = sums + R * (l < whole ? 1 + l / at_once * at_once : 1 + l);
            const double y = l < whole ? of[r * at_once + l % at_once] : of[r];
            explained += y * y;
        }
        b.scores[(first + r) * m.components + k] =
            log_density(constant, m.features, unexplained<T>(sums[r], explained));
    }
}

// [E39] Scores of samples [first, last) without gaps under component k.  IN m; INOUT b.
template <class T>
inline void score_group(const LowRank<T> &m, std::size_t k, std::size_t first, std::size_t last, Batch<T> &b) {
    const std::size_t each = m.rank + 1, most = features_at_once<T>(m.stride);
    double *sums = m.room; // [most_rows, rank + 1], for which there is room: a stride is at least half of most_rows
    for (std::size_t i = 0; i < (last - first) * each; ++i) sums[i] = 0;
    const std::size_t whole = first + (last - first) / group * group;
    for (std::size_t start = 0; start < m.stride; start += most) {
        const std::size_t count = m.stride - start < most ? m.stride - start : most;
        double *to = sums;
        for (std::size_t n = first; n < whole; n += group, to += group * each)
            add_features<T, group>(m, k, b.samples + n * m.stride, start, count, to);
        for (std::size_t n = whole; n < last; ++n, to += each)
            add_features<T, 1>(m, k, b.samples + n * m.stride, start, count, to);
    }
    for (std::size_t n = first; n < whole; n += group, sums += group * each) score_sums<T, group>(m, k, n, sums, b);
    for (std::size_t n = whole; n < last; ++n, sums += each) score_sums<T, 1>(m, k, n, sums, b);
}

// [E39] [E38] Scores of all samples under component k.  IN m; INOUT b.
template <class T> inline void add_scores(const LowRank<T> &m, std::size_t k, Batch<T> &b) {
    const T *mean = m.means + k * m.stride;
    for (std::size_t n = 0; n < b.size; n += most_rows)
        score_group(m, k, n, b.size - n < most_rows ? b.size : n + most_rows, b);
    for (std::size_t n = 0; n < b.size; ++n) {
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
