// Products of factors with deviations, y = F (x - mean), and the squared distances that they give.
#pragma once
#include "../shared/linear.h"
#include "types.h"

namespace {

// Of this namespace, so that the steps find the functions here.
template <class T> struct FullKind : Full<T> {};

constexpr std::size_t line_bytes =
    64; // products are summed in lines of 64 bytes: half a pack wastes less of a triangle
template <class T> constexpr std::size_t line_lanes = line_bytes / sizeof(T);
constexpr std::size_t line_vectors = line_bytes / STREAMGMM_WIDTH;
constexpr int together = STREAMGMM_WIDTH / 8; // sums that the registers hold
constexpr std::size_t block_rows = 8;         // rows of F whose products are squared and added at once

// Whole lines that hold the numbers of row i of F which may differ from zero.
template <class T> inline std::size_t row_length(const Full<T> &m, std::size_t i) {
    return m.lower ? (i / line_lanes<T> + 1) * line_lanes<T> : m.stride;
}

// Dot products of one vector with R others that are `apart` numbers from each other. The order of additions does not
// depend on R; sums over block_features numbers are added in float64.
// IN one[count], many; OUT out[R]; count is a whole number of lines.
template <class T, int R>
inline void line_dots(const T *one, const T *many, std::size_t apart, std::size_t count, double *out) {
    using V = typename Lanes<T>::vector;
    constexpr std::size_t lanes = vector_lanes<T>;
    for (std::size_t start = 0; start == 0 || start < count; start += block_features) {
        const std::size_t stop = count - start < block_features ? count : start + block_features;
        V acc[R][line_vectors];
        UNROLLED_FOR (int j = 0; j < R; ++j)
            UNROLLED_FOR (std::size_t i = 0; i < line_vectors; ++i) acc[j][i] = V{};
        for (std::size_t d = start; d < stop; d += line_lanes<T>)
            UNROLLED_FOR (std::size_t i = 0; i < line_vectors; ++i) {
                const V a = load_vector(one + d + i * lanes);
                UNROLLED_FOR (int j = 0; j < R; ++j) acc[j][i] += a * load_vector(many + j * apart + d + i * lanes);
            }
        V sums[R];
        UNROLLED_FOR (int j = 0; j < R; ++j) {
            UNROLLED_FOR (std::size_t half = line_vectors / 2; half > 0; half /= 2)
                UNROLLED_FOR (std::size_t i = 0; i < half; ++i) acc[j][i] += acc[j][i + half];
            sums[j] = acc[j][0];
        }
        constexpr int folded = R < int(lanes) ? R : int(lanes);
        UNROLLED_FOR (int j = 0; j < R; j += folded) {
            const V total = fold<T, 1, folded>(sums + j);
            if constexpr (sizeof(T) == sizeof(double) && folded == int(lanes)) { // whole vectors are read back at once
                store_vector(out + j, start ? load_vector(out + j) + total : total);
            } else {
                for (int i = 0; i < folded; ++i) out[j + i] = start ? out[j + i] + double(total[i]) : double(total[i]);
            }
        }
    }
}

// x - mean.  IN x[stride], mean[stride]; OUT away[stride].
template <class T> inline void deviate(const T *x, const T *mean, std::size_t stride, T *away) {
    for (std::size_t d = 0; d < stride; ++d) away[d] = x[d] - mean[d];
}

// Rows [first, last) of y = F (x - mean).  IN away[stride]; OUT y[features].
template <class T>
inline void project_rows(const Full<T> &m, std::size_t k, const T *away, std::size_t first, std::size_t last,
                         double *y) {
    const T *rows = m.factors + k * m.features * m.stride;
    std::size_t i = first;
    for (; i + together <= last; i += together)
        line_dots<T, together>(away, rows + i * m.stride, m.stride, row_length(m, i + together - 1), y + i);
    for (; i < last; ++i) line_dots<T, 1>(away, rows + i * m.stride, m.stride, row_length(m, i), y + i);
}

// y = F (x - mean).  IN away[stride]; OUT y[features].
template <class T> inline void project(const Full<T> &m, std::size_t k, const T *away, double *y) {
    project_rows(m, k, away, 0, m.features, y);
}

// Adds squares to sums, one for every eighth number. Never inlined, so that the same numbers give the same bits
// wherever they come from.  IN y[count]; INOUT sums[block_rows].
__attribute__((noinline)) inline void add_squares(const double *y, std::size_t count, double *sums) {
    std::size_t i = 0;
    for (; i + block_rows <= count; i += block_rows)
        UNROLLED_FOR (std::size_t j = 0; j < block_rows; ++j) sums[j] += y[i + j] * y[i + j];
    for (std::size_t j = 0; i + j < count; ++j) sums[j] += y[i + j] * y[i + j];
}

// IN sums[block_rows].
inline double total_of(const double *sums) {
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// IN y[count].
inline double squared_length(const double *y, std::size_t count) {
    double sums[block_rows] = {};
    add_squares(y, count, sums);
    return total_of(sums);
}

// Length of row i of F. Units may be so small, or so large, that squares of T have no end or no digits.
template <class T> inline double length(const Full<T> &m, std::size_t k, std::size_t i) {
    const T *row = m.factors + (k * m.features + i) * m.stride;
    double square;
    line_dots<T, 1>(row, row, 0, m.stride, &square);
    if (sizeof(T) < sizeof(double) && !(square > 1e-30 && square < 1e37)) {
        square = 0;
        for (std::size_t j = 0; j < m.features; ++j) square += double(row[j]) * double(row[j]);
    }
    return __builtin_sqrt(square);
}

} // namespace
