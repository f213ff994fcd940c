// Running moments: the mean and variance of a component move a fraction r of the way towards a sample.
#pragma once
#include "assignment.h"

namespace {

// [E14] Moves mean and variance of one component by one sample: v' = (1 - r)(v + r (x - mean)^2), at most `most`, so
// that a square that overflows is forgotten again.
// IN x, INOUT means, variances.
template <class T> inline void move_moments(const T *x, T *means, T *variances, std::size_t stride, T r, T most) {
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) {
        const Pack<T> xs = load(x + d);
        Pack<T> m = load(means + d), v = load(variances + d);
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
            const auto away = xs.v[i] - m.v[i], part = r * away;
            m.v[i] += part;
            const auto moved = (T(1) - r) * (v.v[i] + part * away), highest = typename Lanes<T>::vector{} + most;
            v.v[i] = moved < highest ? moved : highest;
        }
        store(means + d, m);
        store(variances + d, v);
    }
}

// The same for means only.  IN x, INOUT means.
template <class T> inline void move_means(const T *x, T *means, std::size_t stride, T r) {
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) {
        const Pack<T> xs = load(x + d);
        Pack<T> m = load(means + d);
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) m.v[i] += r * (xs.v[i] - m.v[i]);
        store(means + d, m);
    }
}

// [E24] What variances are blended with: a prior of its own weight for each feature, which fades with the evidence.
template <class T> struct Blend {
    T evidence;
    const T *prior; // as in Moments; null leaves variances as they are
};

// Beyond these, evidence or a prior decides alone. Products of both stay finite.
template <class T> constexpr double most_evidence = 1e100;
template <class T> constexpr double heaviest_prior = 1e100;
template <> constexpr double most_evidence<float> = 1e12;
template <> constexpr double heaviest_prior<float> = 1e15;

template <class T> inline Blend<T> blend(const Moments<T> &moments, std::size_t k) {
    if (!moments.prior) return {T(0), nullptr};
    return {T(moments.evidence[k] < most_evidence<T> ? moments.evidence[k] : most_evidence<T>), moments.prior};
}

// [E24] Scales from variances and a prior: n (n a)^(-1/2) is (a / n)^(-1/2), without a division.
// IN v, with; returns a pack of features from d on.
template <class T>
inline Pack<T> blended_scales(const Pack<T> &v, const Blend<T> &with, std::size_t d, std::size_t stride) {
    const Pack<T> expected = load(with.prior + d), weight = load(with.prior + stride + d),
                  added = load(with.prior + 2 * stride + d), smallest = load(with.prior + 3 * stride + d);
    const auto heaviest = typename Lanes<T>::vector{} + T(heaviest_prior<T>);
    Pack<T> s;
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
        const auto w = weight.v[i] < heaviest ? weight.v[i] : heaviest;
        const auto n = with.evidence + w, least = n * smallest.v[i];
        const auto a = with.evidence * v.v[i] + w * expected.v[i] + n * added.v[i];
        s.v[i] = n * inverse_root<T, Lanes<T>::root_turns_needed>(n * (a > least ? a : least));
    }
    return s;
}

// [E15] Scales of one component from its variances, clipped to their bounds.
// IN variances, OUT scales; returns the log-determinant.
template <class T>
inline double scales_of(const T *variances, T *scales, const Model<T> &model, T scale_min, T scale_max,
                        const Blend<T> &with) {
    using V = typename Lanes<T>::vector;
    const std::size_t features = model.features, stride = model.stride;
    LogProduct<T> product;
    const V low = V{} + T(1) / (scale_max * scale_max), high = V{} + T(1) / (scale_min * scale_min);
    const V top = V{} + scale_max, bottom = V{} + scale_min;
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) {
        Pack<T> v = load(variances + d);
        if (with.prior) v = blended_scales(v, with, d, stride);
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
            if (with.prior) {
                v.v[i] = v.v[i] > bottom ? v.v[i] : bottom;
            } else {
                V bounded = v.v[i] > low ? v.v[i] : low;
                bounded = bounded < high ? bounded : high;
                v.v[i] = inverse_root<T>(bounded);
            }
            v.v[i] = v.v[i] < top ? v.v[i] : top;
        }
        if (d + pack_lanes<T> > features) v = pad(v, features - d, T(1));
        store(scales + d, v);
        product.multiply(v);
    }
    return product.log();
}

// [E14] for one sample that may have gaps; those features keep their moments.
template <class T>
inline void move_known(const Scratch<T> &scratch, T *means, T *variances, std::size_t stride, T r, T most) {
    if (scratch.gaps) remember(scratch, means, variances, stride);
    move_moments(scratch.samples, means, variances, stride, r, most);
    if (scratch.gaps) take_back(scratch, means, variances, stride);
}

// [E14] for a batch, from weighted sums about the old mean: shift = sum w (x - mean), square = sum w (x - mean)^2.
// INOUT mean, v.
template <class T>
inline void move_by_sums(double shift, double square, double mass, double r, double most, T *mean, T *v) {
    const double part = r / mass, step = part * shift;
    *mean = T(double(*mean) + step);
    const double moved = (1 - r) * double(*v) + part * square - step * step;
    *v = T(moved > 0 ? (moved < most ? moved : most) : 0);
}

} // namespace
