// How much a sample moves a component: shares of samples, and rates of steps.
#pragma once
#include <cmath>

#include "bounds.h"
#include "softmax.h"

namespace {

using namespace streamgmm;

// [E25] Turns scores into weights that sum to `share`: responsibilities, without those that are negligible.
// IN scores[components], best; OUT weights[components], which may be the scores.
template <class T>
inline void share_by_scores(const double *scores, std::size_t components, double best, double share, double *weights) {
    using V = Lanes<double>::vector;
    constexpr std::size_t lanes = vector_lanes<double>;
    const V none = {};
    Pack<double> acc = fill(0.0);
    for (std::size_t first = 0; first < components; first += pack_lanes<double>)
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
            const std::size_t k = first + i * lanes;
            if (k >= components) break;
            const std::size_t count = components - k < lanes ? components - k : lanes;
            const V below = load_some(scores + k, count, -HUGE_VAL) - best;
            const auto near = below >= -negligible_share<T>;
            const V weight = any_lane(near) ? (near ? exp_negative(below) : none) : none;
            acc.v[i] += weight;
            store_some(weights + k, count, weight);
        }
    const double each = share / sum(acc);
    for (std::size_t k = 0; k < components; ++k) weights[k] *= each;
}

// [E13] Updates the count of a component that receives weight w; returns its rate r = w / count.  INOUT count.
inline double earned_rate(double *count, double w, const NaturalStep &step) {
    const double more = *count + step.growth * w;
    *count = more < step.count_max ? more : step.count_max;
    return w < *count ? w / *count : 1.0;
}

// [E16] Rate of step t; without a rate, that of a plain mean.
inline double em_rate(const EmStep &step, std::size_t t) {
    if (step.rate <= 0) return 1.0 / double(t + 1);
    const double r = step.rate * __builtin_pow(double(t + 1), -step.exponent);
    return r > step.rate_min ? r : step.rate_min;
}

// The variance at the lowest scale.
inline double most_variance(double scale_min) { return 1 / (scale_min * scale_min); }

// A deviation whose square is within bounds: then that of its running mean is, too.
template <class V> inline V limited(V away, V most) { return away > most ? most : away < -most ? -most : away; }

} // namespace
