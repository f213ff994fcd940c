// Reading, checking and copying rows of data.
#pragma once
#include "lanes.h"

namespace {

// Adds feature d of a row to the sums of its frame; a gap adds nothing.  IN row[features], INOUT frame.
template <class T> inline void sum_value(const Frame<T> &frame, const T *row, std::size_t d) {
    const T z = (row[d] - frame.shift[d]) * frame.unit[d], most = frame.clip[d];
    const T absurd = T(100) * most, finite = T(1e30); // no unit explains the former; sums of the latter stay finite
    const bool watched = frame.active[d] != T(1);
    const bool known = row[d] == row[d] && !(watched && (z > absurd || z < -absurd));
    const bool far = known && (z >= most || z <= -most), summed = known && (watched || !far);
    const T low = z > -most ? z : -most, clipped = low < most ? low : most, square = clipped * clipped;
    frame.known[d] += known ? T(1) : T(0);
    frame.unusual[d] += known && row[d] != frame.usual[d] ? T(1) : T(0);
    frame.far[d] += far ? T(1) : T(0);
    frame.far_sums[d] += far ? (z > finite ? finite : z < -finite ? -finite : z) : T(0);
    frame.sums[d] += summed ? clipped : T(0);
    frame.squares[d] += summed ? square : T(0);
    frame.fourths[d] += summed ? square * square : T(0);
}

// Converts row n to numbers, followed by zeros up to `stride`, and prefetches the next row.  IN x, OUT to[stride].
template <class T>
inline void take_row(const Input<T> &x, std::size_t n, std::size_t features, std::size_t stride, bool summed, T *to) {
    if (x.numbers) {
        const T *row = x.numbers + n * x.stride;
        for (std::size_t d = 0; d < features && d < 1024; d += 64 / sizeof(T)) __builtin_prefetch(row + x.stride + d);
        std::memcpy(to, row, features * sizeof(T));
    } else {
        const std::uint8_t *row = x.bytes + n * x.stride;
        for (std::size_t d = 0; d < features; ++d) to[d] = T(row[d]) * x.factor;
    }
    for (std::size_t d = features; d < stride; ++d) to[d] = T(0);
    if (!x.frame.shift) return;
    for (std::size_t d = 0; summed && d < features; ++d) sum_value(x.frame, to, d);
    for (std::size_t i = 0; !summed && i < x.frame.watched_count; ++i) {
        const std::size_t d = x.frame.watched[i];
        if (to[d] != x.frame.usual[d] && to[d] == to[d]) sum_value(x.frame, to, d);
    }
    // a loop of its own: fused with the product above, bytes would differ from the numbers they are
    for (std::size_t d = 0; d < features; ++d) {
        const T z = (to[d] - x.frame.shift[d]) * x.frame.unit[d];
        to[d] = x.frame.active[d] != T(0) || z != z ? z : T(0);
    }
}

// Marks gaps in a padded sample and replaces them by zero; returns whether there are any.
// INOUT x[stride], OUT present[stride].
template <class T> inline bool find_gaps(T *x, T *present, std::size_t stride) {
    bool any = false;
    for (std::size_t d = 0; d < stride; ++d) {
        const bool there = x[d] == x[d];
        present[d] = there ? T(1) : T(0);
        x[d] = there ? x[d] : T(0);
        any |= !there;
    }
    return any;
}

// Index of the first row with a magnitude beyond the limit (or a NaN, unless gaps are allowed); `rows` if there is
// none. IN x[rows, columns].
template <class T>
std::size_t first_unfit_row(const T *x, std::size_t rows, std::size_t columns, std::size_t stride, T limit, bool gaps) {
    for (std::size_t n = 0; n < rows; ++n) {
        const T *row = x + n * stride;
        typename Lanes<T>::bits fit = ~typename Lanes<T>::bits{};
        std::size_t d = 0;
        for (; d + vector_lanes<T> <= columns; d += vector_lanes<T>) {
            const auto v = load_vector(row + d);
            const auto known = (v <= limit) & (v >= -limit); // false for NaN
            fit &= gaps ? known | (v != v) : known;
        }
        bool all = true;
        for (std::size_t i = 0; i < vector_lanes<T>; ++i) all = all && fit[i];
        for (; d < columns; ++d) all = all && ((row[d] <= limit && row[d] >= -limit) || (gaps && row[d] != row[d]));
        if (!all) return n;
    }
    return rows;
}

// Copies one value into each row.  IN values[rows], each of `width` bytes; OUT to[rows, width].
inline void copy_rows(const char *const *values, std::size_t rows, std::size_t width, std::uint8_t *to) {
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(to + i * width, values[i], width);
}

} // namespace
