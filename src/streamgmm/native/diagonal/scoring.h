// Scores of components for samples: the most expensive part of every rule and of scoring.
#pragma once
#include "../shared/bounds.h"
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

// Calls `got(i, distance)` for i < chosen; row(i) is where the i-th component begins.
template <class T, class Row, class Got>
inline void compare(const T *x, const T *means, const T *scales, std::size_t count, std::size_t chosen, Row row,
                    Got got) {
    double found[4];
    std::size_t i = 0;
    for (; i + 4 <= chosen; i += 4) {
        const std::size_t at[4] = {row(i), row(i + 1), row(i + 2), row(i + 3)};
        distances<T, 4>(x, means, scales, at, count, found);
        UNROLLED_FOR (std::size_t c = 0; c < 4; ++c) got(i + c, found[c]);
    }
    for (; i < chosen; ++i) {
        const std::size_t at = row(i);
        distances<T, 1>(x, means, scales, &at, count, found);
        got(i, found[0]);
    }
}

// [E2] Score of component k at a squared distance.
template <class T>
inline double score_at(const Model<T> &m, const double *log_weights, std::size_t k, double distance) {
    return log_weights[k] + (m.constant + m.log_dets[k] - 0.5 * bounded<T>(distance));
}

// [E2] Scores of all components for one sample.  IN x (padded), OUT scores[components].
template <class T> inline void score_one(const Model<T> &m, const T *x, const double *log_weights, double *scores) {
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
        scores[k] = log_weights[k] + (constant + product.log() - 0.5 * bounded<T>(distance));
    }
}

// Sum of log scale over the features of one row.
template <class T> inline double log_det(const T *scales, std::size_t stride) {
    LogProduct<T> product;
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) product.multiply(load(scales + d));
    return product.log();
}

// As many rows as the registers hold. Reading parameters is slower than reading samples, so each component is compared
// with many rows at once.
constexpr int tile_rows = STREAMGMM_WIDTH == 64 ? 8 : STREAMGMM_WIDTH == 32 ? 2 : 1;
constexpr std::size_t block_components = 64; // a block of their parameters fits into the L2 cache

// Interleaves vectors of rows n to n + R, features [start, stop), relative to the centre, so that a tile reads them in
// order. Beyond `columns` is padding.  IN x, centre[stride]; OUT to[R * (stop - start)].
template <class T, int R>
inline void interleave(const Input<T> &x, std::size_t n, std::size_t columns, const T *centre, std::size_t start,
                       std::size_t stop, T *to) {
    constexpr std::size_t lanes = vector_lanes<T>;
    const std::size_t known = columns < stop ? columns : stop;
    for (std::size_t r = 0; r < R; ++r, to += lanes) {
        std::size_t d = start;
        if (x.numbers)
            for (; d + lanes <= known; d += lanes)
                store_vector(to + (d - start) * R, load_vector(x.numbers + (n + r) * x.stride + d));
        for (; d < stop; d += lanes)
            for (std::size_t i = d; i < d + lanes; ++i) {
                const std::size_t at = (n + r) * x.stride + i;
                to[(d - start) * R + i - d] = i >= known ? T(0) : x.numbers ? x.numbers[at] : T(x.bytes[at]) * x.factor;
            }
        // a loop of its own: fusing product and difference would give bytes and numbers different results
        for (d = start; d < stop; d += lanes)
            store_vector(to + (d - start) * R, load_vector(to + (d - start) * R) - load_vector(centre + d));
    }
}

// Compares R interleaved samples with one component over `count` features. `shifted` holds (mean - centre) * scale, so
// each term takes two fused operations. The order of additions, and so the result, does not depend on R.
// IN x, shifted, scales; INOUT out.
template <class T, int R>
inline void tile(const T *x, const T *shifted, const T *scales, std::size_t count, double *out,
                 std::size_t out_stride) {
    Pack<T> acc[R];
    UNROLLED_FOR (int r = 0; r < R; ++r) acc[r] = fill(T(0));
    for (std::size_t d = 0; d < count; d += pack_lanes<T>)
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i, x += R * vector_lanes<T>) {
            const std::size_t at = d + i * vector_lanes<T>;
            const auto s = load_vector(scales + at), b = load_vector(shifted + at);
            UNROLLED_FOR (int r = 0; r < R; ++r) {
                const auto z = load_vector(x + r * vector_lanes<T>) * s - b;
                acc[r].v[i] += z * z;
            }
        }
    T added[R];
    sums<T, R>(acc, added);
    UNROLLED_FOR (int r = 0; r < R; ++r) out[r * out_stride] += double(added[r]);
}

// Features [start, stop) of components [first, last).
struct Block {
    std::size_t start, stop, first, last;
};

// The same for a block of components and features.  IN m, x, shifted; INOUT scores.
template <class T, int R>
inline void tile_row(const Model<T> &m, const Input<T> &x, std::size_t n, std::size_t columns, const T *shifted,
                     const Block &part, double *scores) {
    const std::size_t start = part.start, stop = part.stop;
    alignas(64) T block[R * block_features];
    interleave<T, R>(x, n, columns, shifted + m.components * m.stride, start, stop, block);
    for (std::size_t k = part.first; k < part.last; ++k)
        tile<T, R>(block, shifted + k * m.stride + start, m.scales + k * m.stride + start, stop - start, scores + k,
                   m.components);
}

// [E2] Scores of all components for many samples: rows of x from `begin` on, `columns` numbers each.
// IN m, x, shifted[components + 1, stride] from `shift`, log_weights; OUT scores[rows, components].
template <class T>
inline void score_many(const Model<T> &m, const Input<T> &x, std::size_t begin, std::size_t columns, std::size_t rows,
                       const T *shifted, const double *log_weights, double *scores) {
    for (std::size_t i = 0; i < rows * m.components; ++i) scores[i] = 0;
    for (std::size_t start = 0; start < m.stride; start += block_features)
        for (std::size_t first = 0; first < m.components; first += block_components) {
            const std::size_t stop = m.stride - start < block_features ? m.stride : start + block_features;
            const std::size_t last = m.components - first < block_components ? m.components : first + block_components;
            const Block part = {start, stop, first, last};
            std::size_t n = 0;
            for (; n + tile_rows <= rows; n += tile_rows)
                tile_row<T, tile_rows>(m, x, begin + n, columns, shifted, part, scores + n * m.components);
            for (; n < rows; ++n) tile_row<T, 1>(m, x, begin + n, columns, shifted, part, scores + n * m.components);
        }
    for (std::size_t n = 0; n < rows; ++n)
        for (std::size_t k = 0; k < m.components; ++k)
            scores[n * m.components + k] = score_at(m, log_weights, k, scores[n * m.components + k]);
}

// Scores of the padded samples in scratch.  IN m, INOUT scratch.
template <class T> inline void score_batch(const Model<T> &m, Scratch<T> &scratch) {
    const Input<T> padded = {scratch.samples, nullptr, T(1), m.stride, nullptr, false, {}};
    score_many(m, padded, 0, m.stride, scratch.batch, scratch.shifted, scratch.log_weights, scratch.scores);
    if (!scratch.gaps) return;
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        const T *present = scratch.present + n * m.stride;
        bool whole = true;
        for (std::size_t d = 0; d < m.features; ++d) whole &= present[d] != T(0);
        if (!whole)
            score_known(m, scratch.samples + n * m.stride, present, scratch.log_weights,
                        scratch.scores + n * m.components);
    }
}

// (means - centre) * scales, then the centre. For data far from zero the product of mean and scale would lose digits.
// The centre of a feature is the mean nearest to zero, so no mean is farther from it than twice its own magnitude.
// IN m, OUT shifted[components + 1, stride].
template <class T> inline void shift(const Model<T> &m, T *shifted) {
    constexpr std::size_t lanes = vector_lanes<T>;
    T *centre = shifted + m.components * m.stride;
    for (std::size_t d = 0; d < m.stride; d += lanes) store_vector(centre + d, load_vector(m.means + d));
    for (std::size_t k = 1; k < m.components; ++k)
        for (std::size_t d = 0; d < m.stride; d += lanes) {
            const auto mean = load_vector(m.means + k * m.stride + d), nearest = load_vector(centre + d);
            store_vector(centre + d, mean * mean < nearest * nearest ? mean : nearest);
        }
    for (std::size_t k = 0; k < m.components; ++k)
        for (std::size_t d = 0, i = k * m.stride; d < m.stride; d += lanes, i += lanes)
            store_vector(shifted + i, (load_vector(m.means + i) - load_vector(centre + d)) * load_vector(m.scales + i));
}

// INOUT m: log_dets of components [first, last) from their scales.
template <class T> void refresh_log_dets(Model<T> m, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) m.log_dets[k] = log_det(m.scales + k * m.stride, m.stride);
}

// [E2] [E3] [E4] for each row.  IN m, x[rows, features], scratch; OUT out.
template <class T> void score(Model<T> m, Input<T> x, std::size_t rows, Scratch<T> scratch, Answers out) {
    softmax(m.logits, m.components, scratch.weights, scratch.log_weights);
    shift(m, scratch.shifted);
    for (std::size_t done = 0; done < rows; done += scratch.batch) {
        const std::size_t count = rows - done < scratch.batch ? rows - done : scratch.batch;
        double *scores = out.scores ? out.scores + done * m.components : scratch.scores;
        score_many(m, x, done, m.features, count, scratch.shifted, scratch.log_weights, scores);
        for (std::size_t n = 0; n < count; ++n) {
            double *row = scores + n * m.components;
            if (row[0] <= score_at(m, scratch.log_weights, 0, distance_max<T>)) { // out of bounds, or NaN
                take_row(x, done + n, m.features, m.stride, scratch.samples);
                if (find_gaps(scratch.samples, scratch.present, m.stride))
                    score_known(m, scratch.samples, scratch.present, scratch.log_weights, row);
            }
            double total;
            if (out.log_likelihood)
                out.log_likelihood[done + n] = exponentials(row, m.components, scratch.weights, &total);
            const std::size_t best = argmax(row, m.components);
            if (out.max_component) out.max_component[done + n] = row[best];
            if (out.winner) out.winner[done + n] = std::int64_t(best);
        }
    }
}

} // namespace
