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

// [E2] sum over features of scale^2 (x - mean)^2, for C neighbouring components at once.
template <class T, int C> inline void distances(const T *x, const T *means, const T *scales, std::size_t stride, double *out) {
    double total[C] = {};
    for (std::size_t start = 0; start < stride; start += block_features) {
        const std::size_t stop = stride - start < block_features ? stride : start + block_features;
        Pack<T> acc[C];
        UNROLL for (int c = 0; c < C; ++c) acc[c] = fill(T(0));
        for (std::size_t d = start; d < stop; d += pack_lanes<T>) {
            const Pack<T> xs = load(x + d);
            UNROLL for (int c = 0; c < C; ++c) {
                const Pack<T> m = load(means + c * stride + d), s = load(scales + c * stride + d);
                UNROLL for (std::size_t i = 0; i < pack_vectors; ++i) {
                    const auto z = (xs.v[i] - m.v[i]) * s.v[i];
                    acc[c].v[i] += z * z;
                }
            }
        }
        UNROLL for (int c = 0; c < C; ++c) total[c] += double(sum(acc[c]));
    }
    UNROLL for (int c = 0; c < C; ++c) out[c] = bounded<T>(total[c]);
}

// [E2] scores of all components for one sample.  IN x (padded), OUT scores[components].
template <class T> inline void score_one(const Model<T> &m, const T *x, const double *log_weights, double *scores) {
    std::size_t k = 0;
    for (; k + 2 <= m.components; k += 2)
        distances<T, 2>(x, m.means + k * m.stride, m.scales + k * m.stride, m.stride, scores + k);
    if (k < m.components) distances<T, 1>(x, m.means + k * m.stride, m.scales + k * m.stride, m.stride, scores + k);
    const double constant = -0.5 * log_two_pi * double(m.features);
    for (k = 0; k < m.components; ++k) scores[k] = log_weights[k] + (constant + m.log_dets[k] - 0.5 * scores[k]);
}

// Sum over features of log scale for one row.
template <class T> inline double log_det(const T *scales, std::size_t stride) {
    LogProduct<T> product;
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) product.multiply(load(scales + d));
    return product.log();
}

// R samples against C components over one block of features; `shifted` holds mean * scale, so that each term costs
// two fused operations. The order of additions for a pair does not depend on R and C: neither does its value.
template <class T, int R, int C>
inline void tile(const T *x, std::size_t x_stride, const T *shifted, const T *scales, std::size_t stride, std::size_t start,
                 std::size_t stop, double *out, std::size_t out_stride) {
    Pack<T> acc[R][C];
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int c = 0; c < C; ++c) acc[r][c] = fill(T(0));
    for (std::size_t d = start; d < stop; d += pack_lanes<T>)
        UNROLL for (std::size_t i = 0; i < pack_vectors; ++i) {
            const std::size_t at = d + i * vector_lanes<T>;
            typename Lanes<T>::vector xs[R];
            UNROLL for (int r = 0; r < R; ++r) xs[r] = load_vector(x + r * x_stride + at);
            UNROLL for (int c = 0; c < C; ++c) {
                const auto s = load_vector(scales + c * stride + at), b = load_vector(shifted + c * stride + at);
                UNROLL for (int r = 0; r < R; ++r) {
                    const auto z = xs[r] * s - b;
                    acc[r][c].v[i] += z * z;
                }
            }
        }
    UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int c = 0; c < C; ++c) out[r * out_stride + c] += double(sum(acc[r][c]));
}

// As many accumulators as the machine has registers for.
constexpr int tile_rows = STREAMGMM_WIDTH == 64 ? 4 : 2;
constexpr int tile_components = STREAMGMM_WIDTH == 64 ? 2 : 1;

template <class T, int R>
inline void tile_row(const T *x, const Model<T> &m, const T *shifted, std::size_t start, std::size_t stop, double *out) {
    std::size_t k = 0;
    for (; k + tile_components <= m.components; k += tile_components)
        tile<T, R, tile_components>(x, m.stride, shifted + k * m.stride, m.scales + k * m.stride, m.stride, start, stop, out + k, m.components);
    for (; k < m.components; ++k)
        tile<T, R, 1>(x, m.stride, shifted + k * m.stride, m.scales + k * m.stride, m.stride, start, stop, out + k, m.components);
}

// [E2] scores of all components for many samples.
// IN x[rows, stride] (padded), IN shifted[components, stride] = means * scales, OUT scores[rows, components].
template <class T>
inline void score_many(const Model<T> &m, const T *x, std::size_t rows, const T *shifted, const double *log_weights,
                       double *scores) {
    for (std::size_t i = 0; i < rows * m.components; ++i) scores[i] = 0;
    for (std::size_t start = 0; start < m.stride; start += block_features) {
        const std::size_t stop = m.stride - start < block_features ? m.stride : start + block_features;
        std::size_t n = 0;
        for (; n + tile_rows <= rows; n += tile_rows)
            tile_row<T, tile_rows>(x + n * m.stride, m, shifted, start, stop, scores + n * m.components);
        for (; n < rows; ++n) tile_row<T, 1>(x + n * m.stride, m, shifted, start, stop, scores + n * m.components);
    }
    const double constant = -0.5 * log_two_pi * double(m.features);
    for (std::size_t n = 0; n < rows; ++n)
        for (std::size_t k = 0; k < m.components; ++k) {
            double &s = scores[n * m.components + k];
            s = log_weights[k] + (constant + m.log_dets[k] - 0.5 * bounded<T>(s));
        }
}

template <class T> inline void shift(const Model<T> &m, T *shifted) {
    for (std::size_t i = 0; i < m.components * m.stride; ++i) shifted[i] = m.means[i] * m.scales[i];
}

} // namespace
