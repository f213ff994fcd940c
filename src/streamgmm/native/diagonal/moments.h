// Running moments: the mean and variance of a component move a fraction r of the way towards a sample.
#pragma once
#include "assignment.h"

namespace {

// [E14] Moves means and variances by a sample: v' = (1 - r)(v + r (x - mean)^2), at most `most`, so that a square that
// overflows is forgotten again.  IN x, INOUT m, v.
template <class T> inline void move_pack(const Pack<T> &x, T r, T most, Pack<T> &m, Pack<T> &v) {
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
        const auto away = x.v[i] - m.v[i], part = r * away;
        m.v[i] += part;
        const auto moved = (T(1) - r) * (v.v[i] + part * away), highest = typename Lanes<T>::vector{} + most;
        v.v[i] = moved < highest ? moved : highest;
    }
}

// The same for the means of a component only.  IN x, INOUT means.
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

// [E15] How variances become scales, clipped to their bounds.
template <class T, bool prior> class Scaling {
    using V = typename Lanes<T>::vector;
    V low, high, top, bottom;
    Blend<T> with;
    std::size_t features, stride;

    // [E24] n (n a)^(-1/2) is (a / n)^(-1/2), without a division.
    Pack<T> blended(const Pack<T> &v, std::size_t d) const {
        const Pack<T> expected = load(with.prior + d), weight = load(with.prior + stride + d),
                      added = load(with.prior + 2 * stride + d), smallest = load(with.prior + 3 * stride + d);
        const V heaviest = V{} + T(heaviest_prior<T>);
        Pack<T> n, squared;
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
            const V w = weight.v[i] < heaviest ? weight.v[i] : heaviest;
            n.v[i] = with.evidence + w;
            const V least = n.v[i] * smallest.v[i];
            const V a = with.evidence * v.v[i] + w * expected.v[i] + n.v[i] * added.v[i];
            squared.v[i] = n.v[i] * (a > least ? a : least);
        }
        Pack<T> s = inverse_root<T, Lanes<T>::root_turns_needed>(squared);
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) s.v[i] *= n.v[i];
        return s;
    }

  public:
    Scaling(const Model<T> &m, T scale_min, T scale_max, const Blend<T> &with_)
        : low(V{} + T(1) / (scale_max * scale_max)), high(V{} + T(1) / (scale_min * scale_min)), top(V{} + scale_max),
          bottom(V{} + scale_min), with(with_), features(m.features), stride(m.stride) {}

    // Scales of a pack of features from d on.
    Pack<T> operator()(Pack<T> v, std::size_t d) const {
        if constexpr (prior) {
            v = blended(v, d);
            UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) v.v[i] = v.v[i] > bottom ? v.v[i] : bottom;
        } else {
            UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
                const V bounded = v.v[i] > low ? v.v[i] : low;
                v.v[i] = bounded < high ? bounded : high;
            }
            v = inverse_root(v);
        }
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) v.v[i] = v.v[i] < top ? v.v[i] : top;
        return d + pack_lanes<T> > features ? pad(v, features - d, T(1)) : v;
    }
};

template <class T, bool prior>
inline double scales_of(const T *variances, T *scales, std::size_t stride, const Scaling<T, prior> &scaling,
                        LogProduct<T> product) {
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) {
        const Pack<T> s = scaling(load(variances + d), d);
        store(scales + d, s);
        product.multiply(s);
    }
    return product.log();
}

// [E15] Scales of one component from its variances.  IN variances, OUT scales; returns the log-determinant.
template <class T>
inline double scales_of(const T *variances, T *scales, const Model<T> &m, T scale_min, T scale_max,
                        const Blend<T> &with) {
    const LogProduct<T> product(scale_min, scale_max);
    return with.prior
               ? scales_of(variances, scales, m.stride, Scaling<T, true>(m, scale_min, scale_max, with), product)
               : scales_of(variances, scales, m.stride, Scaling<T, false>(m, scale_min, scale_max, with), product);
}

// [E14] for one sample that may have gaps; those features keep their moments.
template <class T>
inline void move_known(const Scratch<T> &scratch, T *means, T *variances, std::size_t stride, T r, T most) {
    if (scratch.gaps) remember(scratch, means, variances, stride);
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) {
        Pack<T> m = load(means + d), v = load(variances + d);
        move_pack(load(scratch.samples + d), r, most, m, v);
        store(means + d, m);
        store(variances + d, v);
    }
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
