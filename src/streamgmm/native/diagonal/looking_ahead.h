// Steps of one sample that move many components compare each of them with the next sample as they move it, so that its
// parameters are read once, not twice.
#pragma once
#include "scoring.h"

namespace {

// Means and scales of a pack of features.
template <class T> struct Moved {
    Pack<T> means, scales;
};

// Calls `move(d)`, which moves a pack of features from d on and returns it, for all packs of a component.
// Returns the squared distance from the next sample, if there is one: the same numbers in the same order as
// `distances`.
template <class T, class Move> inline double move_row(const T *next, std::size_t stride, Move move) {
    double total = 0;
    for (std::size_t start = 0; start < stride; start += block_features) {
        const std::size_t stop = stride - start < block_features ? stride : start + block_features;
        Pack<T> acc = fill(T(0));
        for (std::size_t d = start; d < stop; d += pack_lanes<T>) {
            const Moved<T> row = move(d);
            if (!next) continue;
            const Pack<T> xs = load(next + d);
            UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
                const auto z = (xs.v[i] - row.means.v[i]) * row.scales.v[i];
                acc.v[i] += z * z;
            }
        }
        total += double(sum(acc));
    }
    return total;
}

// Compares components that a step has not moved with the next sample, too.  IN m, INOUT scratch.
template <class T> inline void compare_others(const Model<T> &m, Scratch<T> &scratch) {
    if (!scratch.ahead) return;
    std::size_t count = 0;
    for (std::size_t k = 0; k < m.components; ++k)
        if (scratch.received[k] < negligible<T>) scratch.some[count++] = std::uint32_t(k);
    compare(
        scratch.next, m.means, m.scales, m.stride, count, [&](std::size_t i) { return scratch.some[i] * m.stride; },
        [&](std::size_t i, double distance) { scratch.scores[scratch.some[i]] = distance; });
}

} // namespace
