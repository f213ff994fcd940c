// Weights from logits. Every step takes dozens of exponentials, so they are vectorised.
#pragma once
#include "lanes.h"

namespace {

// exp(a) for |a| <= 700, accurate to a bit or two.
inline Lanes<double>::vector exponential(Lanes<double>::vector a) {
    using V = Lanes<double>::vector;
    const double shift = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to an integer
    const V rounded = a * 1.44269504088896340736 + shift;
    const V n = rounded - shift;
    V r = a - n * 0.693145751953125;
    r = r - n * 1.42860682030941723212e-6;
    V p = V{} + 1.0 / 6227020800.0; // Taylor series to r^13: below 1e-17 for |r| <= log(2)/2
    const double coefficient[] = {1.0 / 479001600.0,
                                  1.0 / 39916800.0,
                                  1.0 / 3628800.0,
                                  1.0 / 362880.0,
                                  1.0 / 40320.0,
                                  1.0 / 5040.0,
                                  1.0 / 720.0,
                                  1.0 / 120.0,
                                  1.0 / 24.0,
                                  1.0 / 6.0,
                                  0.5,
                                  1.0,
                                  1.0};
    for (double c : coefficient) p = p * r + c;
    Lanes<double>::bits power;
    std::memcpy(&power, &rounded, sizeof power);
    power = (power + Lanes<double>::bias) << Lanes<double>::mantissa_bits; // 2^n: the low bits of `rounded` hold n
    V scale;
    std::memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

// exp(x) for x <= 0; arguments below -700 are taken as -700.
inline Lanes<double>::vector exp_negative(Lanes<double>::vector x) {
    const Lanes<double>::vector floor = Lanes<double>::vector{} - 700.0;
    return exponential(x < floor ? floor : x);
}

inline std::size_t padded_components(std::size_t components) {
    return (components + pack_lanes<double> - 1) / pack_lanes<double> * pack_lanes<double>;
}

// Largest of `count` numbers; compares several at a time, because one long chain of comparisons is slow.
inline double maximum(const double *values, std::size_t count) {
    using V = Lanes<double>::vector;
    constexpr std::size_t lanes = vector_lanes<double>;
    double best = values[0];
    std::size_t k = 0;
    if (count >= 4 * lanes) {
        V top[4];
        UNROLLED_FOR (std::size_t i = 0; i < 4; ++i) top[i] = load_vector(values + i * lanes);
        for (k = 4 * lanes; k + 4 * lanes <= count; k += 4 * lanes)
            UNROLLED_FOR (std::size_t i = 0; i < 4; ++i) {
                const V v = load_vector(values + k + i * lanes);
                top[i] = v > top[i] ? v : top[i];
            }
        UNROLLED_FOR (std::size_t i = 1; i < 4; ++i) top[0] = top[i] > top[0] ? top[i] : top[0];
        for (std::size_t j = 0; j < lanes; ++j) best = top[0][j] > best ? top[0][j] : best;
    }
    for (; k < count; ++k) best = values[k] > best ? values[k] : best;
    return best;
}

// Index of the largest number; the lowest index wins a tie.
inline std::size_t argmax(const double *values, std::size_t count) {
    constexpr std::size_t lanes = vector_lanes<double>;
    const double top = maximum(values, count);
    std::size_t k = 0;
    while (k + lanes <= count && !any_lane(load_vector(values + k) == top)) k += lanes;
    while (k + 1 < count && values[k] != top) ++k;
    return k;
}

// Computes exp(values - max) and their total; returns log(sum exp(values)).
// IN values[count], OUT out[padded_components(count)], OUT total.
inline double exponentials(const double *values, std::size_t count, double *out, double *total) {
    const double top = maximum(values, count);
    const std::size_t padded = padded_components(count);
    for (std::size_t k = 0; k < count; ++k) out[k] = values[k] - top;
    for (std::size_t k = count; k < padded; ++k) out[k] = -700.0; // adds nothing to a sum of at least one
    Pack<double> acc = fill(0.0);
    for (std::size_t k = 0; k < padded; k += pack_lanes<double>) {
        Pack<double> e = load(out + k);
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) acc.v[i] += e.v[i] = exp_negative(e.v[i]);
        store(out + k, e);
    }
    *total = sum(acc);
    return top + __builtin_log(*total);
}

// [E1] Weights = softmax(logits), and their logarithms.  IN logits, OUT weights (padded), OUT log_weights.
inline void softmax(const double *logits, std::size_t count, double *weights, double *log_weights) {
    double total;
    const double lse = exponentials(logits, count, weights, &total);
    const double share = 1 / total;
    for (std::size_t k = 0; k < count; ++k) weights[k] *= share;
    for (std::size_t k = 0; k < count; ++k) log_weights[k] = logits[k] - lse;
}

} // namespace
