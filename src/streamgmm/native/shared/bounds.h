// Constants of densities that every covariance kind shares.
#pragma once
#include <cstddef>

namespace {

constexpr double log_two_pi = 1.83787706640934548356;
constexpr std::size_t block_features = 1024; // partial sums of this many features are added up in float64

// Weights below this change nothing at the precision of T.
template <class T> constexpr double negligible = 1e-17;
template <> constexpr double negligible<float> = 1e-8;

// Below the best score by this much, a responsibility is zero in the arithmetic at hand: log(1 / epsilon).
template <class T> constexpr double negligible_share = 36.04365338911715;
template <> constexpr double negligible_share<float> = 15.942385152878742;

template <class T> constexpr double distance_max = 1e300;
template <> constexpr double distance_max<float> = 1e38;

// The square of an extreme sample overflows; a finite bound keeps infinity, and so NaN, out of everything that follows.
template <class T> inline double bounded(double distance) {
    return distance < distance_max<T> ? distance : distance_max<T>;
}

} // namespace
