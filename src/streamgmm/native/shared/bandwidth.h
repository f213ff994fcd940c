// Memory bandwidth: the best the machine can do. Benchmarks compare the loops with it.
#pragma once
#include "lanes.h"

namespace {

// Reads every whole pack once. IN values[count].
template <class T> T read_all(const T *values, std::size_t count) {
    Pack<T> acc[4];
    UNROLLED_FOR (int j = 0; j < 4; ++j) acc[j] = fill(T(0));
    std::size_t d = 0;
    for (; d + 4 * pack_lanes<T> <= count; d += 4 * pack_lanes<T>)
        UNROLLED_FOR (int j = 0; j < 4; ++j) {
            const Pack<T> p = load(values + d + j * pack_lanes<T>);
            UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) acc[j].v[i] += p.v[i];
        }
    return sum(acc[0]) + sum(acc[1]) + sum(acc[2]) + sum(acc[3]);
}

// Reads and writes every whole pack once. INOUT values[count].
template <class T> void rewrite_all(T *values, std::size_t count, T factor) {
    for (std::size_t d = 0; d + pack_lanes<T> <= count; d += pack_lanes<T>) {
        Pack<T> p = load(values + d);
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) p.v[i] *= factor;
        store(values + d, p);
    }
}

} // namespace
