// Columns of a table become rows.
#pragma once
#include <cstddef>

namespace streamgmm {

// A few rows at a time: what they take of a column is a line of the cache, and each row is written from left to right.
// IN from[columns] of `rows` numbers each; OUT to[rows, columns].
template <class T> void columns_to_rows(const T *const *from, std::size_t columns, std::size_t rows, T *to) {
    constexpr std::size_t together = 64 / sizeof(T);
    std::size_t row = 0;
    for (; row + together <= rows; row += together)
        for (std::size_t c = 0; c < columns; ++c)
            for (std::size_t r = 0; r < together; ++r) to[(row + r) * columns + c] = from[c][row + r];
    for (; row < rows; ++row)
        for (std::size_t c = 0; c < columns; ++c) to[row * columns + c] = from[c][row];
}

} // namespace streamgmm
