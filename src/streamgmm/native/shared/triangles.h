// Triangular factors of larger matrices than those of linear.h, in tiles that stay in registers.
#pragma once
#include "lanes.h"

namespace {

using Doubles = Lanes<double>::vector;

// As large as registers allow: 16 vectors of 16 or 32 bytes, 32 of 64 bytes.
constexpr std::size_t tile_height = STREAMGMM_WIDTH == 64 ? 8 : 4;
constexpr std::size_t tile_vectors = STREAMGMM_WIDTH == 32 ? 3 : 2;

// Zeros about a one.
struct Unit {
    double numbers[2 * vector_lanes<double>] = {};
    constexpr Unit() { numbers[vector_lanes<double>] = 1; }
};
constexpr Unit unit;

// A vector with a one at this place, and zeros elsewhere.
inline Doubles unit_at(std::size_t place) {
    constexpr std::size_t lanes = vector_lanes<double>;
    return place < lanes ? load_vector(unit.numbers + lanes - place) : Doubles{};
}

// A tile of H rows and V vectors.
template <std::size_t H, std::size_t V> struct Tile {
    static constexpr std::size_t lanes = vector_lanes<double>, width = V;
    Doubles v[H][V];

    // IN matrix: gives vectors by row and first column.
    template <class Matrix> void load(const Matrix &matrix, std::size_t row, std::size_t column) {
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c) v[r][c] = matrix(row + r, column + c * lanes);
    }

    void store(double *to, std::size_t apart) const {
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c) store_vector(to + r * apart + c * lanes, v[r][c]);
    }

    // Zeros, and ones on the diagonal that begins in column `first` of the first row.
    void set_unit(std::size_t first) {
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c) v[r][c] = unit_at(first + r - c * lanes);
    }

    // Subtracts the product of `count` columns of H numbers with as many rows, of which the first N vectors count.
    // IN left, right [count, apart].
    template <std::size_t N>
    void subtract(const double *left, const double *right, std::size_t count, std::size_t apart) {
        for (std::size_t p = 0; p < count; ++p, left += apart, right += apart) {
            Doubles row[N];
            UNROLLED_FOR (std::size_t c = 0; c < N; ++c) row[c] = load_vector(right + c * lanes);
            UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
                UNROLLED_FOR (std::size_t c = 0; c < N; ++c) v[r][c] -= left[r] * row[c];
        }
    }

    // The same with rows of a lower triangle that begin at its diagonal.
    template <std::size_t N = 1>
    void subtract_lower(const double *left, const double *right, std::size_t count, std::size_t apart) {
        const std::size_t some = N == V || count < lanes ? count : lanes;
        subtract<N>(left, right, some, apart);
        if constexpr (N < V) subtract_lower<N + 1>(left + some * apart, right + some * apart, count - some, apart);
    }

    // IN u: rows of U from the diagonal element of the first on, share[H]: 1 / diagonal of U.
    void solve(const double *u, std::size_t apart, const double *share) {
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r) {
            UNROLLED_FOR (std::size_t q = 0; q < r; ++q)
                UNROLLED_FOR (std::size_t c = 0; c < V; ++c) v[r][c] -= u[q * apart + r] * v[q][c];
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c) v[r][c] *= share[r];
        }
    }
};

// Calls `take(tile, c)` for tiles that cover columns [start, stop), which are whole vectors.
template <std::size_t H, class Take> inline void each_tile(std::size_t start, std::size_t stop, Take take) {
    constexpr std::size_t lanes = vector_lanes<double>, wide = tile_vectors * lanes;
    std::size_t c = start;
    for (; c + wide <= stop; c += wide) take(Tile<H, tile_vectors>(), c);
    for (; c < stop; c += lanes) take(Tile<H, 1>(), c);
}

// Rows [j, j + H) of U as far as the tile that holds their diagonal; pivots count as at least `least`.
// IN matrix; INOUT u; OUT share[H]: 1 / diagonal of U.
template <std::size_t H, class Matrix>
inline void factorise_first(const Matrix &matrix, double *u, std::size_t apart, std::size_t j, double least,
                            double *share) {
    constexpr std::size_t lanes = vector_lanes<double>, V = (H + lanes - 1) / lanes;
    static_assert(lanes % H == 0 || H % lanes == 0, "the diagonal must be within the tile");
    const std::size_t c = j / lanes * lanes;
    Tile<H, V> tile;
    double *rows = u + j * apart + c, *own = u + j * apart + j;
    tile.load(matrix, j, c);
    UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
        UNROLLED_FOR (std::size_t i = 0; i < V; ++i)
            tile.v[r][i] += matrix.more[j + r] * unit_at(j + r - c - i * lanes);
    tile.template subtract<V>(u + j, u + c, j, apart);
    tile.store(rows, apart);
    // Pivots wait for each other, so their block is eliminated in single numbers, which need not go through memory.
    double block[H][H], factors[H][H], roots[H];
    UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
        UNROLLED_FOR (std::size_t q = r; q < H; ++q) block[r][q] = own[r * apart + q];
    UNROLLED_FOR (std::size_t r = 0; r < H; ++r) {
        const double found = block[r][r], pivot = found > least ? found : least; // also for NaN
        const double inverse = 1 / pivot; // the next pivot waits for this, but not for the root
        UNROLLED_FOR (std::size_t q = r + 1; q < H; ++q) {
            factors[r][q] = block[r][q] * inverse;
            UNROLLED_FOR (std::size_t e = q; e < H; ++e) block[q][e] -= factors[r][q] * block[r][e];
        }
        roots[r] = __builtin_sqrt(pivot);
        share[r] = roots[r] * inverse;
    }
    UNROLLED_FOR (std::size_t r = 0; r < H; ++r) {
        UNROLLED_FOR (std::size_t q = r + 1; q < H; ++q)
            UNROLLED_FOR (std::size_t i = 0; i < V; ++i) tile.v[q][i] -= factors[r][q] * tile.v[r][i];
        UNROLLED_FOR (std::size_t i = 0; i < V; ++i)
            store_vector(rows + r * apart + i * lanes, share[r] * tile.v[r][i]);
        own[r * apart + r] = roots[r];
    }
}

// The other columns of rows [j, j + H) of U.  IN matrix, share[H]; INOUT u.
template <std::size_t H, class Matrix>
inline void factorise_others(const Matrix &matrix, double *u, std::size_t n, std::size_t apart, std::size_t j,
                             const double *share) {
    constexpr std::size_t lanes = vector_lanes<double>;
    const std::size_t start = (j + H + lanes - 1) / lanes * lanes, stop = (n + lanes - 1) / lanes * lanes;
    each_tile<H>(start, stop, [&](auto tile, std::size_t c) {
        tile.load(matrix, j, c);
        tile.template subtract<tile.width>(u + j, u + c, j, apart);
        tile.solve(u + j * apart + j, apart, share);
        tile.store(u + j * apart + c, apart);
    });
}

// Rows [i, i + H) of the inverse of U'.  IN u, share[H]; INOUT w.
template <std::size_t H>
inline void invert_rows(const double *u, std::size_t apart, std::size_t i, const double *share, double *w) {
    constexpr std::size_t lanes = vector_lanes<double>;
    const std::size_t stop = (i + H + lanes - 1) / lanes * lanes;
    each_tile<H>(0, stop, [&](auto tile, std::size_t c) {
        tile.set_unit(i - c);
        if (c < i) tile.subtract_lower(u + c * apart + i, w + c * apart + c, i - c, apart);
        tile.solve(u + i * apart + i, apart, share);
        tile.store(w + i * apart + c, apart);
    });
    for (std::size_t r = i; r < i + H; ++r)
        for (std::size_t c = stop; c < apart; ++c) w[r * apart + c] = 0;
}

// The inverse of U', which is lower triangular, where A = U'U; pivots count as at least `least`. Pivots wait for each
// other: rows of the inverse are computed meanwhile.
// IN matrix: gives vectors of A by row and first column, on or above the diagonal, to which it has `more` to add;
// OUT u[n, apart], upper triangle; OUT w[n, apart], zeros above the diagonal; apart is a whole number of packs.
template <class Matrix>
inline void invert_factor(const Matrix &matrix, std::size_t n, std::size_t apart, double least, double *u, double *w) {
    constexpr std::size_t height = tile_height;
    double shares[2][height]; // those of two blocks of rows, in turn
    std::size_t j = 0;
    for (; j + height <= n; j += height) {
        double *share = shares[j / height % 2];
        factorise_first<height>(matrix, u, apart, j, least, share);
        if (j > 0) invert_rows<height>(u, apart, j - height, shares[j / height % 2 ^ 1], w);
        factorise_others<height>(matrix, u, n, apart, j, share);
    }
    if (j > 0) invert_rows<height>(u, apart, j - height, shares[j / height % 2 ^ 1], w);
    for (; j < n; ++j) {
        double share;
        factorise_first<1>(matrix, u, apart, j, least, &share);
        factorise_others<1>(matrix, u, n, apart, j, &share);
        invert_rows<1>(u, apart, j, &share, w);
    }
}

} // namespace
