// What the control of a training does with numbers of components at a check. NumPy computes the same to the last bit,
// but takes longer for a dozen numbers than all steps of a period.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace streamgmm {

// Averages the share of wins of each component over about `memory` samples, and forgets the wins.
// INOUT usage, wins [components]; returns how many components have at least the share `live`.
inline std::size_t average_usage(double *usage, std::int64_t *wins, std::size_t components, double memory,
                                 double live) {
    std::int64_t total = 0;
    for (std::size_t k = 0; k < components; ++k) total += wins[k];
    const double weight = std::min(1.0, double(total) / memory);
    std::size_t found = 0;
    for (std::size_t k = 0; k < components; ++k) {
        usage[k] = (1 - weight) * usage[k] + weight * double(wins[k]) / double(total);
        found += usage[k] >= live;
        wins[k] = 0;
    }
    return found;
}

// [E18] Moves weights towards the shares of `total` that components have received; adds these to `since`, and begins to
// receive anew.  INOUT weights, received, since [components].
inline void move_weights(double *weights, double *received, double *since, std::size_t components, double total,
                         double rate) {
    for (std::size_t k = 0; k < components; ++k) {
        weights[k] += rate * (received[k] / total - weights[k]);
        since[k] += received[k];
        received[k] = 0;
    }
}

// The upper one of the two middle numbers, or the middle one.  IN values[count], which is not 0.
inline double upper_median(const double *values, std::size_t count) {
    std::vector<double> ordered(values, values + count);
    std::nth_element(ordered.begin(), ordered.begin() + std::ptrdiff_t(count / 2), ordered.end());
    return ordered[count / 2];
}

} // namespace streamgmm
