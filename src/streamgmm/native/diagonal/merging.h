// Merging replicas: moves every component from where the round started, by shares of each replica's change.
#pragma once
#include "moments.h"

namespace {

// Merges one row. Changes of means (and plain values) add up; variances merge as second moments about the old mean:
// v = v0 + sum c (v_r + (m_r - m0)^2 - v0) - (m - m0)^2.
// IN merge; OUT means, second [stride].
template <class T>
inline void merge_row(const Merge<T> &merge, std::size_t k, std::size_t stride, T *means, T *second) {
    const std::size_t row = k * stride;
    const double *shares = merge.shares + k * merge.replicas;
    constexpr std::size_t width = 256;
    double shift[width], square[width];
    for (std::size_t start = 0; start < stride; start += width) {
        const std::size_t at = row + start, count = stride - start < width ? stride - start : width;
        const T *old_means = merge.start_means + at, *old_second = merge.start_second + at;
        for (std::size_t i = 0; i < count; ++i) shift[i] = square[i] = 0;
        for (std::size_t r = 0; r < merge.replicas; ++r) {
            const T *m = merge.means[r] + at, *s = merge.second[r] + at;
            const double share = shares[r];
            for (std::size_t i = 0; i < count; ++i) {
                const double moved = double(m[i]) - double(old_means[i]);
                shift[i] += share * moved;
                square[i] += share * (double(s[i]) - double(old_second[i]) + (merge.moments ? moved * moved : 0.0));
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            means[start + i] = T(double(old_means[i]) + shift[i]);
            const double value = double(old_second[i]) + square[i] - (merge.moments ? shift[i] * shift[i] : 0.0);
            const double bounded = value > 0 ? (value < merge.most ? value : merge.most) : 0.0; // also for NaN
            second[start + i] = T(merge.moments ? bounded : value);
        }
    }
}

template <class T>
void merge_rows(Merge<T> merge, std::size_t stride, std::size_t first, std::size_t last, T *means, T *second) {
    for (std::size_t k = first; k < last; ++k) merge_row(merge, k, stride, means + k * stride, second + k * stride);
}

// [E15] Scales and log-determinants of components [first, last) from their moments.  INOUT m, IN moments.
template <class T>
void rescale(Model<T> m, Moments<T> moments, double scale_min, double scale_max, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k)
        m.log_dets[k] = scales_of(moments.variances + k * m.stride, m.scales + k * m.stride, m, T(scale_min),
                                  T(scale_max), blend(moments, k));
}

} // namespace
