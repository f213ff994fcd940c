// Logarithms of products of many positive numbers, such as determinants.
#pragma once
#include "lanes.h"

namespace {

// The logarithm of mantissas * 2^exponents, with one rounding less if `fused`, where the machine can. Volatile, or the
// compiler would fuse product and sum here and not there, and bits would differ.
inline double log_of(double mantissas, std::int64_t exponents, [[maybe_unused]] bool fused = false) {
    constexpr double log_two = 0.693147180559945309417232121458;
#ifdef __FP_FAST_FMA
    if (fused) return __builtin_fma(double(exponents), log_two, __builtin_log(mantissas));
#endif
    volatile const double whole = double(exponents) * log_two;
    return __builtin_log(mantissas) + whole;
}

// IN mantissas[pack_lanes<T>]
template <class T> inline double product_of(const T *mantissas) {
    double product = 1;
    for (std::size_t i = 0; i < pack_lanes<T>; ++i) product *= double(mantissas[i]);
    return product;
}

// One logarithm for all numbers: they are multiplied, and exponents are split off before a product leaves the range of
// T. How often that is has no effect on the bits of the mantissas.
template <class T> class LogProduct {
    using L = Lanes<T>;
    Pack<T> product = fill(T(1));
    typename L::bits exponent[pack_vectors] = {};
    int period = 1, since_split = 0;

    void split() {
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
            typename L::bits b;
            std::memcpy(&b, &product.v[i], sizeof b);
            exponent[i] += (b >> L::mantissa_bits) - L::bias;
            b = (b & L::mantissa_mask) | L::one;
            std::memcpy(&product.v[i], &b, sizeof b);
        }
        since_split = 0;
    }

    static int exponent_of(T number) {
        typename L::integer b;
        std::memcpy(&b, &number, sizeof b);
        return int((b >> L::mantissa_bits) - L::bias);
    }

  public:
    LogProduct() = default;

    // For factors within bounds, or not far outside as those of a loaded model may be.
    LogProduct(T least, T most) {
        const int below = -exponent_of(least), above = exponent_of(most) + 1, outside = 7;
        const int reach = (below > above ? below : above) + outside, range = int(L::bias) - 3;
        period = reach < range ? range / reach : 1;
    }

    void multiply(const Pack<T> &factor) {
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) product.v[i] *= factor.v[i];
        if (++since_split == period) split();
    }

    // OUT mantissas[pack_lanes<T>] whose product is left; returns the sum of all exponents.
    std::int64_t finish(T *mantissas) {
        split();
        store(mantissas, product);
        typename L::integer lane[pack_lanes<T>], total = 0;
        std::memcpy(lane, exponent, sizeof lane);
        for (auto part : lane) total += part;
        return total;
    }

    double log(bool fused = false) {
        alignas(64) T lane[pack_lanes<T>];
        const std::int64_t exponents = finish(lane);
        return log_of(product_of(lane), exponents, fused);
    }
};

// Logarithms of several products. Mantissas are multiplied in the same order as for one, but products take turns: each
// multiplication waits for the one before it.
template <class T> class LogProducts {
    static constexpr int room = 8;
    alignas(64) T lane[room][pack_lanes<T>];
    std::int64_t exponents[room];
    double *to[room];
    int count = 0;

  public:
    // Sets *log, now or when finished.
    void add(LogProduct<T> &product, double *log) {
        exponents[count] = product.finish(lane[count]);
        to[count++] = log;
        if (count == room) finish();
    }

    void finish() {
        double mantissas[room];
        for (double &each : mantissas) each = 1;
        if (count == room)
            for (std::size_t i = 0; i < pack_lanes<T>; ++i)
                UNROLLED_FOR (int j = 0; j < room; ++j) mantissas[j] *= double(lane[j][i]);
        for (int j = 0; j < count; ++j) {
            if (count < room) mantissas[j] = product_of(lane[j]);
            *to[j] = log_of(mantissas[j], exponents[j]);
        }
        count = 0;
    }
};

} // namespace
