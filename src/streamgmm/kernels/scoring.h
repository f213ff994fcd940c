// Scores of components for samples: the part of every rule and of every question that costs the most.
#pragma once
#include "softmax.h"

namespace {

constexpr double log_two_pi = 1.83787706640934548356;
constexpr std::size_t block_features = 1024; // partial sums of so many features are added up in float64

template <class T> constexpr double distance_max = 1e300;
template <> constexpr double distance_max<float> = 1e38;

// An absurd sample overflows the square; a finite bound keeps infinity, and so NaN, out of all that follows.
template <class T> inline double bounded(double distance) {
    return distance < distance_max<T> ? distance : distance_max<T>;
}

// [E2] sum over `count` features of scale^2 (x - mean)^2, for C components at once; their rows begin at `at`.
template <class T, int C>
inline void distances(const T *x, const T *means, const T *scales, const std::size_t *at, std::size_t count, double *out) {
    const T *m[C], *s[C];
    UNROLL for (int c = 0; c < C; ++c) m[c] = means + at[c], s[c] = scales + at[c];
    double total[C] = {};
    for (std::size_t start = 0; start < count; start += block_features) {
        const std::size_t stop = count - start < block_features ? count : start + block_features;
        Pack<T> acc[C];
        UNROLL for (int c = 0; c < C; ++c) acc[c] = fill(T(0));
        for (std::size_t d = start; d < stop; d += pack_lanes<T>) {
            const Pack<T> xs = load(x + d);
            UNROLL for (int c = 0; c < C; ++c) {
                const Pack<T> ms = load(m[c] + d), ss = load(s[c] + d);
                UNROLL for (std::size_t i = 0; i < pack_vectors; ++i) {
                    const auto z = (xs.v[i] - ms.v[i]) * ss.v[i];
                    acc[c].v[i] += z * z;
                }
            }
        }
        T added[C];
        sums<T, C>(acc, added);
        UNROLL for (int c = 0; c < C; ++c) total[c] += double(added[c]);
    }
    UNROLL for (int c = 0; c < C; ++c) out[c] = total[c];
}

// Calls `got(i, distance)` for each of `chosen` components: row(i) is where the i-th begins.
template <class T, class Row, class Got>
inline void compare(const T *x, const T *means, const T *scales, std::size_t count, std::size_t chosen, Row row, Got got) {
    double found[4];
    std::size_t i = 0;
    for (; i + 4 <= chosen; i += 4) {
        const std::size_t at[4] = {row(i), row(i + 1), row(i + 2), row(i + 3)};
        distances<T, 4>(x, means, scales, at, count, found);
        UNROLL for (std::size_t c = 0; c < 4; ++c) got(i + c, found[c]);
    }
    for (; i < chosen; ++i) {
        const std::size_t at = row(i);
        distances<T, 1>(x, means, scales, &at, count, found);
        got(i, found[0]);
    }
}

// [E2] score of component k at so great a distance.
template <class T> inline double score_at(const Model<T> &m, const double *log_weights, std::size_t k, double distance) {
    const double constant = -0.5 * log_two_pi * double(m.features);
    return log_weights[k] + (constant + m.log_dets[k] - 0.5 * bounded<T>(distance));
}

// [E2] scores of all components for one sample.  IN x (padded), OUT scores[components].
template <class T> inline void score_one(const Model<T> &m, const T *x, const double *log_weights, double *scores) {
    compare(
        x, m.means, m.scales, m.stride, m.components, [&](std::size_t k) { return k * m.stride; },
        [&](std::size_t k, double distance) { scores[k] = distance; });
    for (std::size_t k = 0; k < m.components; ++k) scores[k] = score_at(m, log_weights, k, scores[k]);
}

// [E21] the same on the features that a sample has: distance, determinant and constant leave out the others.
// IN x (padded, 0 where nothing is known), IN present, OUT scores[components].
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
                UNROLL for (std::size_t i = 0; i < pack_vectors; ++i) {
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

// Marks what a padded sample does not have, and puts zero there; says whether anything is missing.
// INOUT x[stride], OUT present[stride].
template <class T> inline bool find_gaps(T *x, T *present, std::size_t stride) {
    bool any = false;
    for (std::size_t d = 0; d < stride; ++d) {
        const bool there = x[d] == x[d];
        present[d] = there ? T(1) : T(0);
        x[d] = there ? x[d] : T(0);
        any |= !there;
    }
    return any;
}

// Sum over features of log scale for one row.
template <class T> inline double log_det(const T *scales, std::size_t stride) {
    LogProduct<T> product;
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) product.multiply(load(scales + d));
    return product.log();
}

// As many rows as the machine has registers for. Many rows against one component: parameters come from farther away
// than samples, so each of them should serve as many samples as possible.
constexpr int tile_rows = STREAMGMM_WIDTH == 64 ? 8 : STREAMGMM_WIDTH == 32 ? 2 : 1;
constexpr std::size_t block_components = 64; // their parameters of one block of features fit into the second cache

// Vectors of rows n to n + R of the data in turn, features [start, stop), so that a tile reads them one after the
// other, as seen from the centre; what lies beyond `columns` is padding.  IN centre[stride], OUT to[R * (stop - start)].
template <class T, int R>
inline void interleave(const Input<T> &x, std::size_t n, std::size_t columns, const T *centre, std::size_t start,
                       std::size_t stop, T *to) {
    constexpr std::size_t lanes = vector_lanes<T>;
    const std::size_t known = columns < stop ? columns : stop;
    for (std::size_t r = 0; r < R; ++r, to += lanes) {
        std::size_t d = start;
        if (x.numbers)
            for (; d + lanes <= known; d += lanes) store_vector(to + (d - start) * R, load_vector(x.numbers + (n + r) * x.stride + d));
        for (; d < stop; d += lanes)
            for (std::size_t i = d; i < d + lanes; ++i) {
                const std::size_t at = (n + r) * x.stride + i;
                to[(d - start) * R + i - d] = i >= known ? T(0) : x.numbers ? x.numbers[at] : T(x.bytes[at]) * x.factor;
            }
        // apart from the loops above: a product that is fused with the difference would tell bytes from numbers
        for (d = start; d < stop; d += lanes)
            store_vector(to + (d - start) * R, load_vector(to + (d - start) * R) - load_vector(centre + d));
    }
}

// R interleaved samples against one component over `count` features; `shifted` holds (mean - centre) * scale, so that
// each term costs two fused operations. The order of additions for a pair does not depend on R: neither does its value.
template <class T, int R>
inline void tile(const T *x, const T *shifted, const T *scales, std::size_t count, double *out, std::size_t out_stride) {
    Pack<T> acc[R];
    UNROLL for (int r = 0; r < R; ++r) acc[r] = fill(T(0));
    for (std::size_t d = 0; d < count; d += pack_lanes<T>)
        UNROLL for (std::size_t i = 0; i < pack_vectors; ++i, x += R * vector_lanes<T>) {
            const std::size_t at = d + i * vector_lanes<T>;
            const auto s = load_vector(scales + at), b = load_vector(shifted + at);
            UNROLL for (int r = 0; r < R; ++r) {
                const auto z = load_vector(x + r * vector_lanes<T>) * s - b;
                acc[r].v[i] += z * z;
            }
        }
    T added[R];
    sums<T, R>(acc, added);
    UNROLL for (int r = 0; r < R; ++r) out[r * out_stride] += double(added[r]);
}

// Components [first, last) and features [start, stop) for R rows.
template <class T, int R>
inline void tile_row(const Model<T> &m, const Input<T> &x, std::size_t n, std::size_t columns, const T *shifted,
                     std::size_t start, std::size_t stop, std::size_t first, std::size_t last, double *scores) {
    alignas(64) T block[R * block_features];
    interleave<T, R>(x, n, columns, shifted + m.components * m.stride, start, stop, block);
    for (std::size_t k = first; k < last; ++k)
        tile<T, R>(block, shifted + k * m.stride + start, m.scales + k * m.stride + start, stop - start, scores + k,
                   m.components);
}

// [E2] scores of all components for many samples.
// IN rows of x from `begin` on, each of `columns` numbers, IN shifted[components + 1, stride] as `shift` makes it,
// OUT scores[rows, components].
template <class T>
inline void score_many(const Model<T> &m, const Input<T> &x, std::size_t begin, std::size_t columns, std::size_t rows,
                       const T *shifted, const double *log_weights, double *scores) {
    for (std::size_t i = 0; i < rows * m.components; ++i) scores[i] = 0;
    for (std::size_t start = 0; start < m.stride; start += block_features)
        for (std::size_t first = 0; first < m.components; first += block_components) {
            const std::size_t stop = m.stride - start < block_features ? m.stride : start + block_features;
            const std::size_t last = m.components - first < block_components ? m.components : first + block_components;
            std::size_t n = 0;
            for (; n + tile_rows <= rows; n += tile_rows)
                tile_row<T, tile_rows>(m, x, begin + n, columns, shifted, start, stop, first, last,
                                       scores + n * m.components);
            for (; n < rows; ++n)
                tile_row<T, 1>(m, x, begin + n, columns, shifted, start, stop, first, last, scores + n * m.components);
        }
    for (std::size_t n = 0; n < rows; ++n)
        for (std::size_t k = 0; k < m.components; ++k)
            scores[n * m.components + k] = score_at(m, log_weights, k, scores[n * m.components + k]);
}

// Scores of the samples in scratch, which are padded already.
template <class T> inline void score_batch(const Model<T> &m, Scratch<T> &scratch) {
    const Input<T> padded = {scratch.samples, nullptr, T(1), m.stride, nullptr, false};
    score_many(m, padded, 0, m.stride, scratch.batch, scratch.shifted, scratch.log_weights, scratch.scores);
    if (!scratch.gaps) return;
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        const T *present = scratch.present + n * m.stride;
        bool whole = true;
        for (std::size_t d = 0; d < m.features; ++d) whole &= present[d] != T(0);
        if (!whole) score_known(m, scratch.samples + n * m.stride, present, scratch.log_weights, scratch.scores + n * m.components);
    }
}

// Means as seen from a centre, times scales; the centre is the last row. Data far from zero would lose their digits in
// the product of mean and scale; in each feature the mean nearest to zero takes away what all of them share, and no
// mean is farther from it than twice its own size.  OUT shifted[components + 1, stride].
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

} // namespace
