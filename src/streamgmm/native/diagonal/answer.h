// [E28] The model that answers: variances as far as they are known, in the units of the rows.
#pragma once
#include "../shared/softmax.h"
#include "moments.h"

namespace {

// Logarithms of positive numbers, accurate to the last places.
inline Lanes<double>::vector logarithm(Lanes<double>::vector x) {
    using L = Lanes<double>;
    using V = L::vector;
    L::bits bits;
    std::memcpy(&bits, &x, sizeof bits);
    const L::integer root_half = 0x3fe6a09e667f3bcd;              // mantissas from sqrt(1/2) to sqrt(2)
    const L::bits power = (bits - root_half) >> L::mantissa_bits; // may be negative
    bits -= power << L::mantissa_bits;
    V m;
    std::memcpy(&m, &bits, sizeof m);
    const V f = (m - 1.0) / (m + 1.0), square = f * f; // log m = 2 (f + f^3 / 3 + f^5 / 5 + ...), with |f| < 0.172
    V series = V{} + 1.0 / 21;
    const double coefficient[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3};
    for (double c : coefficient) series = series * square + c;
    const V whole = __builtin_convertvector(power, V);
    return whole * 0.693147180559945309417232121458 + (2.0 * f + 2.0 * f * square * series);
}

template <class T> inline void store_doubles(T *to, Lanes<double>::vector v) {
    for (std::size_t i = 0; i < vector_lanes<double>; ++i) to[i] = T(v[i]);
}

// Samples that component k's variances come from, as far as they count.
template <class T> inline double known_samples(const Moments<T> &moments, std::size_t k, double growth) {
    const double most = (2 - growth) * moments.masses[k];
    return moments.evidence[k] < most ? moments.evidence[k] : most;
}

// How samples become rows, for each feature: mean' = (mean - away) factor + fixed, scale' = scale width + still.
// A feature that has not varied is its shift, at a density of one. Padding has mean 0 and scale 1.
struct Units {
    double *away, *factor, *fixed, *width, *still; // [stride]
};

// IN m, frame[frame_rows, features]; OUT units.
template <class T> inline void units_of_rows(const Model<T> &m, const T *frame, const Units &units) {
    const T *shift = frame, *unit = frame + m.features, *active = unit + m.features;
    for (std::size_t d = 0; d < m.stride; ++d) {
        const bool varies = d < m.features && active[d] != T(0);
        const double u = varies ? double(unit[d]) : 1;
        units.away[d] = varies ? -double(shift[d]) * u : 0;
        units.factor[d] = varies ? 1 / u : 0;
        units.width[d] = varies ? (u < 0 ? -u : u) : 0;
        units.fixed[d] = varies || d >= m.features ? 0 : double(shift[d]);
        units.still[d] = varies ? 0 : d < m.features ? 2.506628274631000502 : 1; // sqrt(2 pi)
    }
}

// Scales of all components as their counts allow: means of n samples are uncertain, and variances about them too small.
// IN m, moments with a prior; OUT out.scales, weights[components], together[stride]: half the logarithms of mean
// precisions; scratch row[stride].
template <class T>
inline void widened_scales(const Model<T> &m, const Moments<T> &moments, const AnswerStep &step, bool young,
                           const Model<T> &out, double *weights, double *together, T *row) {
    using V = Lanes<double>::vector;
    constexpr std::size_t lanes = vector_lanes<double>;
    double top = m.logits[0], total = 0;
    for (std::size_t j = 1; j < m.components; ++j) top = m.logits[j] > top ? m.logits[j] : top;
    for (std::size_t j = 0; j < m.components; ++j) total += weights[j] = __builtin_exp(m.logits[j] - top);
    for (std::size_t d = 0; d < m.stride; ++d) together[d] = 0;
    for (std::size_t j = 0; j < m.components; ++j) {
        const T *variances = moments.variances + j * m.stride;
        if (young) {
            const double known = known_samples(moments, j, step.growth), n = known > step.fewest ? known : step.fewest;
            for (std::size_t d = 0; d < m.stride; ++d) row[d] = T(double(variances[d]) * ((n + 1) / (n - 1)));
            variances = row;
        }
        T *scales = out.scales + j * m.stride;
        scales_of(variances, scales, m, T(step.scale_min), T(step.scale_max), blend(moments, j));
        const double weight = weights[j] / total;
        for (std::size_t d = 0; young && d < m.stride; d += lanes) {
            const V s = load_doubles(scales + d);
            store_vector(together + d, load_vector(together + d) + weight / (s * s));
        }
    }
    for (std::size_t d = 0; young && d < m.stride; d += lanes)
        store_vector(together + d, -0.5 * logarithm(load_vector(together + d)));
}

// IN m, moments with a prior, frame; OUT out, which has the shape of m; scratch doubles[components + 6 * stride],
// row[stride].
template <class T>
void answer(Model<T> m, Moments<T> moments, const T *frame, AnswerStep step, Model<T> out, double *doubles, T *row) {
    using V = Lanes<double>::vector;
    double *weights = doubles, *together = weights + m.components, *at = together + m.stride;
    const Units units = {at, at + m.stride, at + 2 * m.stride, at + 3 * m.stride, at + 4 * m.stride};
    units_of_rows(m, frame, units);
    const double weight = step.pooled * step.pooled * (1 - step.growth);
    const bool young = weight > 0;
    widened_scales(m, moments, step, young, out, weights, together, row);
    for (std::size_t j = 0; j < m.components; ++j) {
        const double known = young ? known_samples(moments, j, step.growth) : 0;
        const double share = young ? weight / (known * known + weight) : 0;
        const T *old = m.means + j * m.stride;
        T *means = out.means + j * m.stride, *scales = out.scales + j * m.stride;
        for (std::size_t d = 0; d < m.stride; d += vector_lanes<double>) {
            V s = load_doubles(scales + d);
            // a few samples tell less about a component than all components together do
            if (young) s *= exponential(share * (load_vector(together + d) - logarithm(s)));
            const V mean = (load_doubles(old + d) - load_vector(units.away + d)) * load_vector(units.factor + d);
            store_doubles(means + d, mean + load_vector(units.fixed + d));
            store_doubles(scales + d, s * load_vector(units.width + d) + load_vector(units.still + d));
        }
        out.logits[j] = m.logits[j];
        out.log_dets[j] = log_det(scales, m.stride);
    }
}

} // namespace
