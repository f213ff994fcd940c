// Reading, checking and copying rows of data.
#pragma once
#include "lanes.h"

namespace {

// Adds numbers to a vector of sums.  INOUT to[count].
template <class T> inline void add_some(T *to, std::size_t count, typename Lanes<T>::vector more) {
    store_some(to, count, load_some(to, count) + more);
}

// Which of `count` features from d on have an unusual value although they are watched, or not active.
template <class T> inline auto unusual_values(const Frame<T> &frame, const T *row, std::size_t d, std::size_t count) {
    const auto x = load_some(row + d, count), usual = load_some(frame.usual + d, count);
    return (load_some(frame.active + d, count) != T(1)) & (x != usual) & (x == x);
}

// Adds `count` features of a row, from d on and where `chosen`, to the sums of its frame; a gap adds nothing.
// IN row[features], INOUT frame.
template <class T, class Mask>
inline void sum_values(const Frame<T> &frame, const T *row, std::size_t d, std::size_t count, Mask chosen) {
    using V = typename Lanes<T>::vector;
    auto get = [&](const T *from) { return load_some(from + d, count); };
    const V x = get(row), z = (x - get(frame.shift)) * get(frame.unit), most = get(frame.clip);
    const V none = {}, one = none + T(1), absurd = T(explained) * most;
    const V finite = none + T(1e30); // sums of this stay finite
    const auto watched = get(frame.active) != one;
    const auto known = chosen & (x == x) & ~(watched & ((z > absurd) | (z < -absurd)));
    const auto far = known & ((z >= most) | (z <= -most)), summed = known & (watched | ~far);
    const V low = z > -most ? z : -most, clipped = low < most ? low : most, square = clipped * clipped;
    const V below = z > finite ? finite : z, bounded = below < -finite ? -finite : below;
    add_some(frame.known + d, count, known ? one : none);
    add_some(frame.unusual + d, count, known & (x != get(frame.usual)) ? one : none);
    add_some(frame.far + d, count, far ? one : none);
    add_some(frame.far_sums + d, count, far ? bounded : none);
    add_some(frame.sums + d, count, summed ? clipped : none);
    add_some(frame.squares + d, count, summed ? square : none);
    add_some(frame.fourths + d, count, summed ? square * square : none);
}

// Converts row n to numbers.  IN x, OUT to[features].
template <class T> inline void copy_row(const Input<T> &x, std::size_t n, std::size_t features, T *to) {
    if (x.numbers) {
        std::memcpy(to, x.numbers + n * x.stride, features * sizeof(T));
    } else {
        const std::uint8_t *row = x.bytes + n * x.stride;
        for (std::size_t d = 0; d < features; ++d) to[d] = T(row[d]) * x.factor;
    }
}

// A row may be as far from others as numbers go, and a unit as small: their product must stay a number.
template <class T> constexpr T farthest_sample = T(1e150);
template <> constexpr float farthest_sample<float> = 1e37f;

// Makes row n a sample, followed by zeros up to `stride`, and prefetches the next row.  IN x, OUT to[stride].
template <class T>
inline void take_row(const Input<T> &x, std::size_t n, std::size_t features, std::size_t stride, T *to) {
    const T *next = x.numbers + (n + 1) * x.stride;
    for (std::size_t d = 0; x.numbers && d < features && d < 1024; d += 64 / sizeof(T)) __builtin_prefetch(next + d);
    copy_row(x, n, features, to);
    for (std::size_t d = features; d < stride; ++d) to[d] = T(0);
    if (!x.frame.shift) return;
    // a loop of its own: fused with the product above, bytes would differ from the numbers they are
    const T *shift = x.frame.shift, *unit = x.frame.unit, *active = x.frame.active;
    for (std::size_t d = 0; d < features; ++d) {
        const T z = (to[d] - shift[d]) * unit[d];
        const T low = z < -farthest_sample<T> ? -farthest_sample<T> : z; // also for NaN
        const T known = low > farthest_sample<T> ? farthest_sample<T> : low;
        to[d] = active[d] != T(0) || z != z ? known : T(0);
    }
}

// Samples that count less than this are absurd: they say nothing about the data.
constexpr double absurd_share = 1e-8;

// Adds row n, which belongs to step `step` and whose sample has this influence, to the sums of its frame. Unusual
// values of watched features are summed at every step, others at one in `every`.
// IN x, INOUT x.frame, scratch room[features].
template <class T>
inline void sum_row(const Input<T> &x, std::size_t n, std::size_t features, std::size_t step, double influence,
                    T *room) {
    const Frame<T> &frame = x.frame;
    if (!frame.shift || influence < absurd_share) return;
    if (!x.numbers) copy_row(x, n, features, room);
    const T *row = x.numbers ? x.numbers + n * x.stride : room;
    const bool all = (frame.first + step * frame.apart) % frame.every == 0;
    constexpr std::size_t lanes = vector_lanes<T>, together = 8 * lanes; // unusual values are few: rarely in a group
    for (std::size_t start = 0; start < features; start += together) {
        const std::size_t stop = features - start < together ? features : start + together;
        auto count = [&](std::size_t d) { return stop - d < lanes ? stop - d : lanes; };
        auto unusual = unusual_values(frame, row, start, count(start));
        for (std::size_t d = start + lanes; d < stop; d += lanes) unusual |= unusual_values(frame, row, d, count(d));
        if (!all && !any_lane(unusual)) continue;
        for (std::size_t d = start; d < stop; d += lanes) {
            unusual = unusual_values(frame, row, d, count(d));
            if (all || any_lane(unusual)) sum_values(frame, row, d, count(d), all ? (unusual & 0) - 1 : unusual);
        }
    }
}

// Marks gaps in a padded sample and replaces them by zero; returns whether there are any.
// INOUT x[stride], OUT present[stride].
template <class T> inline bool find_gaps(T *x, T *present, std::size_t stride) {
    using V = typename Lanes<T>::vector;
    const V none = {};
    typename Lanes<T>::bits known = ~typename Lanes<T>::bits{};
    for (std::size_t d = 0; d < stride; d += vector_lanes<T>) {
        const V v = load_vector(x + d);
        const auto there = v == v;
        store_vector(present + d, there ? none + T(1) : none);
        store_vector(x + d, there ? v : none);
        known &= there;
    }
    return any_lane(~known);
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
