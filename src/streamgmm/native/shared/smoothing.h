// Smoothing over the grid of components. The Gaussian filter of a torus is the product of a filter along columns and
// one along rows, so smoothing K scores costs K * (rows + columns) instead of K * K.
#pragma once
#include "softmax.h"

namespace {

// [E5] Weight of component j when `winner` wins.
inline double filter_weight(const Filter &g, std::size_t winner, std::size_t j) {
    return g.along_rows[winner / g.columns * g.rows + j / g.columns] *
           g.along_columns[winner % g.columns * g.columns + j % g.columns];
}

// to[i] = sum over c of weights[c] * from[c * apart + i], for i < width.  IN weights, from; OUT to.
inline void combine(const double *weights, std::size_t count, const double *from, std::size_t apart, std::size_t width,
                    double *to) {
    constexpr std::size_t lanes = pack_lanes<double>;
    std::size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
        Pack<double> acc = fill(0.0);
        for (std::size_t c = 0; c < count; ++c) {
            if (weights[c] == 0) continue; // too far away to contribute
            const Pack<double> p = load(from + c * apart + i);
            UNROLLED_FOR (std::size_t j = 0; j < pack_vectors; ++j) acc.v[j] += weights[c] * p.v[j];
        }
        store(to + i, acc);
    }
    for (std::size_t rest = i; rest < width; ++rest) to[rest] = 0;
    for (std::size_t c = 0; c < count && i < width; ++c)
        for (std::size_t rest = i; rest < width; ++rest) to[rest] += weights[c] * from[c * apart + rest];
}

// Applies the filter to values on the grid, `width` numbers per cell.
// IN values, scratch half, OUT out (may be values): [rows * columns, width].
inline void smooth(const Filter &g, const double *values, std::size_t width, double *half, double *out) {
    const std::size_t line = g.columns * width;
    for (std::size_t a = 0; a < g.rows; ++a)
        if (width == 1) // the filter is symmetric: read a row, which is contiguous, in place of a column
            combine(values + a * line, g.columns, g.along_columns, g.columns, g.columns, half + a * line);
        else
            for (std::size_t b = 0; b < g.columns; ++b)
                combine(g.along_columns + b * g.columns, g.columns, values + a * line, width, width,
                        half + a * line + b * width);
    for (std::size_t a = 0; a < g.rows; ++a)
        combine(g.along_rows + a * g.rows, g.rows, half, line, line, out + a * line);
}

} // namespace
