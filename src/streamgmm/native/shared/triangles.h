// Triangular factors of larger matrices than those of linear.h, in tiles that stay in registers.
#pragma once
#include "lanes.h"

namespace {

using Doubles = Lanes<double>::vector;

constexpr std::size_t tile_height = 4;
constexpr std::size_t tile_vectors = STREAMGMM_WIDTH == 16 ? 2 : 3;

// H rows of a tile and what makes its diagonal block triangular.
template <std::size_t H> struct Corner {
    double above[H][H]; // U, above its diagonal
    double share[H];    // 1 / diagonal of U
    double root[H];     // diagonal of U
};

// IN rows[H, apart]: rows of U from the diagonal element of the first on; OUT corner.
template <std::size_t H> inline void read_corner(const double *rows, std::size_t apart, Corner<H> &corner) {
    for (std::size_t r = 0; r < H; ++r) {
        for (std::size_t q = 0; q < r; ++q) corner.above[q][r] = rows[q * apart + r];
        corner.share[r] = 1 / rows[r * apart + r];
    }
}

// The corner of H rows from which all earlier rows are subtracted; pivots count as at least `least`.
//  IN rows[H, apart], from the diagonal element of the first on; OUT corner.
template <std::size_t H>
inline void factorise_corner(const double *rows, std::size_t apart, double least, Corner<H> &corner) {
    double a[H][H];
    for (std::size_t r = 0; r < H; ++r)
        for (std::size_t c = r; c < H; ++c) a[r][c] = rows[r * apart + c];
    UNROLLED_FOR (std::size_t r = 0; r < H; ++r) {
        const double pivot = a[r][r] > least ? a[r][r] : least; // also for NaN
        const double inverse = 1 / pivot;                       // the next pivot waits for this, but not for the root
        corner.root[r] = __builtin_sqrt(pivot);
        corner.share[r] = corner.root[r] * inverse;
        for (std::size_t c = r + 1; c < H; ++c) corner.above[r][c] = a[r][c] * corner.share[r];
        for (std::size_t q = r + 1; q < H; ++q)
            for (std::size_t c = q; c < H; ++c) a[q][c] -= a[r][q] * inverse * a[r][c];
    }
}

// A tile of H rows and V vectors.
template <std::size_t H, std::size_t V> struct Tile {
    Doubles v[H][V];

    void load(const double *from, std::size_t apart) {
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c)
                v[r][c] = load_vector(from + r * apart + c * vector_lanes<double>);
    }

    void store(double *to, std::size_t apart) const {
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c)
                store_vector(to + r * apart + c * vector_lanes<double>, v[r][c]);
    }

    // Subtracts the product of `count` columns of H numbers with as many rows.  IN left, right [count, apart].
    void subtract(const double *left, const double *right, std::size_t count, std::size_t apart) {
        for (std::size_t p = 0; p < count; ++p, left += apart, right += apart) {
            Doubles row[V];
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c) row[c] = load_vector(right + c * vector_lanes<double>);
            UNROLLED_FOR (std::size_t r = 0; r < H; ++r)
                UNROLLED_FOR (std::size_t c = 0; c < V; ++c) v[r][c] -= left[r] * row[c];
        }
    }

    void solve(const Corner<H> &corner) {
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r) {
            UNROLLED_FOR (std::size_t q = 0; q < r; ++q)
                UNROLLED_FOR (std::size_t c = 0; c < V; ++c) v[r][c] -= corner.above[q][r] * v[q][c];
            UNROLLED_FOR (std::size_t c = 0; c < V; ++c) v[r][c] *= corner.share[r];
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

// Rows [j, j + H) of U.  INOUT a.
template <std::size_t H>
inline void factorise_rows(double *a, std::size_t n, std::size_t apart, std::size_t j, double least) {
    constexpr std::size_t lanes = vector_lanes<double>;
    Corner<H> corner;
    bool first = true;
    auto take = [&](auto tile, std::size_t c) {
        double *rows = a + j * apart + c;
        tile.load(rows, apart);
        tile.subtract(a + j, a + c, j, apart);
        if (first) { // it holds the corner
            tile.store(rows, apart);
            factorise_corner<H>(a + j * apart + j, apart, least, corner);
            tile.solve(corner);
            tile.store(rows, apart);
            for (std::size_t r = 0; r < H; ++r) a[(j + r) * (apart + 1)] = corner.root[r];
            first = false;
            return;
        }
        tile.solve(corner);
        tile.store(rows, apart);
    };
    const std::size_t start = j / lanes * lanes, stop = (n + lanes - 1) / lanes * lanes;
    constexpr std::size_t whole = (H + lanes - 1) / lanes; // vectors of the corner
    static_assert(lanes % H == 0 || H % lanes == 0, "a corner must be within its tile");
    take(Tile<H, whole>(), start);
    each_tile<H>(start + whole * lanes, stop, take);
}

// Replaces the upper triangle of a symmetric matrix A by U with A = U'U; pivots count as at least `least`. What is
// below the diagonal is lost.  INOUT a[n, apart]; apart is a whole number of packs.
inline void factorise(double *a, std::size_t n, std::size_t apart, double least) {
    std::size_t j = 0;
    for (; j + tile_height <= n; j += tile_height) factorise_rows<tile_height>(a, n, apart, j, least);
    for (; j < n; ++j) factorise_rows<1>(a, n, apart, j, least);
}

// Rows [i, i + H) of the inverse of U'.  IN u; INOUT w.
template <std::size_t H> inline void invert_rows(const double *u, std::size_t apart, std::size_t i, double *w) {
    constexpr std::size_t lanes = vector_lanes<double>;
    Corner<H> corner;
    read_corner<H>(u + i * apart + i, apart, corner);
    for (std::size_t r = 0; r < H; ++r) {
        for (std::size_t c = 0; c < apart; ++c) w[(i + r) * apart + c] = 0;
        w[(i + r) * (apart + 1)] = 1;
    }
    each_tile<H>(0, (i + H + lanes - 1) / lanes * lanes, [&](auto tile, std::size_t c) {
        tile.load(w + i * apart + c, apart);
        if (c < i) tile.subtract(u + c * apart + i, w + c * apart + c, i - c, apart);
        tile.solve(corner);
        tile.store(w + i * apart + c, apart);
    });
}

// The inverse of U', which is lower triangular.  IN u[n, apart], upper; OUT w[n, apart], lower, zeros above.
inline void invert(const double *u, std::size_t n, std::size_t apart, double *w) {
    std::size_t i = 0;
    for (; i + tile_height <= n; i += tile_height) invert_rows<tile_height>(u, apart, i, w);
    for (; i < n; ++i) invert_rows<1>(u, apart, i, w);
}

} // namespace
