// Scores of components for samples: the most expensive part of every rule and of scoring.
#pragma once
#include "../shared/bounds.h"
#include "../shared/log_product.h"
#include "../shared/rows.h"
#include "../shared/softmax.h"
#include "types.h"

namespace {

// [E2] Sum over `count` features of scale^2 (x - mean)^2, for C components at once; their rows begin at `at`.
// IN x, means, scales, at[C]; OUT out[C].
template <class T, int C>
inline void distances(const T *x, const T *means, const T *scales, const std::size_t *at, std::size_t count,
                      double *out) {
    const T *m[C], *s[C];
    UNROLLED_FOR (int c = 0; c < C; ++c) m[c] = means + at[c], s[c] = scales + at[c];
    double total[C] = {};
    for (std::size_t start = 0; start < count; start += block_features) {
        const std::size_t stop = count - start < block_features ? count : start + block_features;
        Pack<T> acc[C];
        UNROLLED_FOR (int c = 0; c < C; ++c) acc[c] = fill(T(0));
        for (std::size_t d = start; d < stop; d += pack_lanes<T>) {
            const Pack<T> xs = load(x + d);
            UNROLLED_FOR (int c = 0; c < C; ++c) {
                const Pack<T> ms = load(m[c] + d), ss = load(s[c] + d);
                UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
                    const auto z = (xs.v[i] - ms.v[i]) * ss.v[i];
                    acc[c].v[i] += z * z;
                }
            }
        }
        T added[C];
        sums<T, C>(acc, added);
        UNROLLED_FOR (int c = 0; c < C; ++c) total[c] += double(added[c]);
    }
    UNROLLED_FOR (int c = 0; c < C; ++c) out[c] = total[c];
}

// Rows of so many bytes are read one after the other, as prefetchers expect; of shorter ones, four share their sums.
constexpr std::size_t long_row = 512;
// Samples of more bytes leave the first-level cache, so components are compared with one block of features after the
// other. Not where means and scales of more bytes come from main memory: that is read best row after row.
constexpr std::size_t long_sample = 1 << 15, cached_rows = 1 << 25;

// Calls `got(i, distance)` for i < chosen; row(i) is where the i-th component begins.
template <class T, class Row, class Got>
inline void compare(const T *x, const T *means, const T *scales, std::size_t count, std::size_t chosen, Row row,
                    Got got) {
    double found[block_components];
    std::size_t i = 0;
    for (; count * sizeof(T) < long_row && i + 4 <= chosen; i += 4) {
        const std::size_t at[4] = {row(i), row(i + 1), row(i + 2), row(i + 3)};
        distances<T, 4>(x, means, scales, at, count, found);
        UNROLLED_FOR (std::size_t c = 0; c < 4; ++c) got(i + c, found[c]);
    }
    const std::size_t bytes = count * sizeof(T);
    const std::size_t block = bytes > long_sample && 2 * chosen * bytes <= cached_rows ? block_features : count;
    while (i < chosen) {
        const std::size_t some = chosen - i < block_components ? chosen - i : block_components;
        for (std::size_t start = 0; start < count; start += block)
            for (std::size_t c = 0; c < some; ++c) {
                const std::size_t at = row(i + c) + start;
                double added;
                distances<T, 1>(x + start, means, scales, &at, count - start < block ? count - start : block, &added);
                found[c] = start ? found[c] + added : added;
            }
        for (std::size_t c = 0; c < some; ++c) got(i + c, found[c]);
        i += some;
    }
}

// [E2] Score of component k at a squared distance.
template <class T>
inline double score_at(const Model<T> &m, const double *log_weights, std::size_t k, double distance) {
    return log_weights[k] + (m.constant + m.log_dets[k] - 0.5 * bounded<T>(distance));
}

// [E2] Scores of all components for one sample.  IN x (padded), OUT scores[components]; IN distances if `compared`.
template <class T>
inline void score_one(const Model<T> &m, const T *x, const double *log_weights, double *scores, bool compared = false) {
    if (!compared)
        compare(
            x, m.means, m.scales, m.stride, m.components, [&](std::size_t k) { return k * m.stride; },
            [&](std::size_t k, double distance) { scores[k] = distance; });
    for (std::size_t k = 0; k < m.components; ++k) scores[k] = score_at(m, log_weights, k, scores[k]);
}

// [E21] The same for a sample with gaps: distance, determinant and constant leave out the features it lacks.
// IN x (padded, 0 in gaps), IN present, OUT scores[components].
template <class T>
inline void score_known(const Model<T> &m, const T *x, const T *present, const double *log_weights, double *scores) {
    std::size_t missing = 0;
    for (std::size_t d = 0; d < m.features; ++d) missing += present[d] == T(0);
    const double constant = -0.5 * log_two_pi * double(m.features - missing);
    for (std::size_t k = 0; k < m.components; ++k) {
        const T *means = m.means + k * m.stride, *scales = m.scales + k * m.stride;
        LogProduct<T> product;
        double distance = 0;
        for (std::size_t start = 0; start < m.stride; start += block_features) {
            const std::size_t stop = m.stride - start < block_features ? m.stride : start + block_features;
            Pack<T> acc = fill(T(0));
            for (std::size_t d = start; d < stop; d += pack_lanes<T>) {
                const Pack<T> xs = load(x + d), there = load(present + d), ms = load(means + d);
                Pack<T> s = load(scales + d);
                UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
                    const auto z = (xs.v[i] - ms.v[i]) * s.v[i] * there.v[i];
                    acc.v[i] += z * z;
                    s.v[i] = s.v[i] * there.v[i] + (T(1) - there.v[i]);
                }
                product.multiply(s);
            }
            distance += double(sum(acc));
        }
        const double log_det = product.log(sizeof(T) == sizeof(double)); // as compilers fused it before we decided
        scores[k] = log_weights[k] + (constant + log_det - 0.5 * bounded<T>(distance));
    }
}

// Sum of log scale over the features of one row.
template <class T> inline double log_det(const T *scales, std::size_t stride) {
    LogProduct<T> product;
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) product.multiply(load(scales + d));
    return product.log();
}

// INOUT m: log_dets of components [first, last) from their scales.
template <class T> void refresh_log_dets(Model<T> m, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) m.log_dets[k] = log_det(m.scales + k * m.stride, m.stride);
}

} // namespace
