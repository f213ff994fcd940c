// Small dense linear algebra: dot products in packs, and triangular factors in float64.
#pragma once
#include <cstring>

#include "bounds.h"
#include "lanes.h"

namespace {

// Dot products of one vector with R others that are `apart` numbers from each other. Lanes are added in an order that
// does not depend on R, and sums over block_features numbers in float64.
// IN one[count], many; OUT out[R]; count is a whole number of packs.
template <class T, int R>
inline void dots(const T *one, const T *many, std::size_t apart, std::size_t count, double *out) {
    for (int j = 0; j < R; ++j) out[j] = 0;
    for (std::size_t start = 0; start < count; start += block_features) {
        const std::size_t stop = count - start < block_features ? count : start + block_features;
        Pack<T> acc[R];
        UNROLLED_FOR (int j = 0; j < R; ++j) acc[j] = fill(T(0));
        for (std::size_t d = start; d < stop; d += pack_lanes<T>) {
            const Pack<T> a = load(one + d);
            UNROLLED_FOR (int j = 0; j < R; ++j) {
                const Pack<T> b = load(many + j * apart + d);
                UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) acc[j].v[i] += a.v[i] * b.v[i];
            }
        }
        T total[R];
        sums<T, R>(acc, total);
        for (int j = 0; j < R; ++j) out[j] += double(total[j]);
    }
}

// Adds the sums of R packs to numbers in float64.  IN packs[R]; INOUT to[R].
template <class T, int R> inline void add_sums(const Pack<T> *packs, double *to) {
    alignas(64) T total[R];
    sums<T, R>(packs, total);
    constexpr std::size_t lanes = vector_lanes<double>, whole = R / lanes * lanes;
    UNROLLED_FOR (std::size_t j = 0; j < whole; j += lanes)
        store_vector(to + j, load_vector(to + j) + load_doubles(total + j));
    for (std::size_t j = whole; j < R; ++j) to[j] += double(total[j]);
}

// Adds dot products of R rows with C others, over at most block_features numbers. As in the tiles of the diagonal kind,
// packs are gone over vector by vector, so that each pair needs one register, whatever the width, and lanes are added
// in an order that does not depend on R and C.
// IN rows, others: `apart` numbers from each other; INOUT to[R, C].
template <class T, int R, int C>
inline void cross_dots(const T *rows, const T *others, std::size_t apart, std::size_t count, double *to) {
    using V = typename Lanes<T>::vector;
    Pack<T> packs[R * C];
    ROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
        V acc[R * C] = {};
        for (std::size_t d = i * vector_lanes<T>; d < count; d += pack_lanes<T>) {
            V b[C];
            UNROLLED_FOR (int c = 0; c < C; ++c) b[c] = load_vector(others + c * apart + d);
            UNROLLED_FOR (int r = 0; r < R; ++r) {
                const V a = load_vector(rows + r * apart + d);
                UNROLLED_FOR (int c = 0; c < C; ++c) acc[r * C + c] += a * b[c];
            }
        }
        UNROLLED_FOR (int j = 0; j < R * C; ++j) packs[j].v[i] = acc[j];
    }
    add_sums<T, R * C>(packs, to);
}

// As `dots`, for any number of vectors.  OUT out[number].
template <class T>
inline void all_dots(const T *one, const T *many, std::size_t number, std::size_t apart, std::size_t count,
                     double *out) {
    std::size_t j = 0;
    for (; j + 4 <= number; j += 4) dots<T, 4>(one, many + j * apart, apart, count, out + j);
    for (; j < number; ++j) dots<T, 1>(one, many + j * apart, apart, count, out + j);
}

// Never inlined, so that the same numbers give the same bits wherever they come from.  IN values[count].
__attribute__((noinline)) inline double sum_of_squares(const double *values, std::size_t count) {
    double total = 0;
    for (std::size_t i = 0; i < count; ++i) total += values[i] * values[i];
    return total;
}

// constant - (count * log 2π + distance) / 2, for the same reason a function of its own.
__attribute__((noinline)) inline double log_density(double constant, std::size_t count, double distance) {
    return constant - 0.5 * (double(count) * log_two_pi + distance);
}

// to[i] += factor * from[i].  IN from[count]; INOUT to[count].
template <class A, class B> inline void add_multiple(const A *from, A factor, std::size_t count, B *to) {
    for (std::size_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

// Replaces the upper triangle of a symmetric matrix A by U with A = U'U; pivots count as at least `least`. Returns the
// sum of the logarithms of the diagonal of U, half the log-determinant of A.  INOUT a[n, n].
inline double factorise(double *a, std::size_t n, double least) {
    double log_det = 0;
    for (std::size_t j = 0; j < n; ++j) {
        double *row = a + j * n;
        const double pivot = row[j] > least ? row[j] : least; // also for NaN
        row[j] = __builtin_sqrt(pivot);
        log_det += 0.5 * __builtin_log(pivot);
        const double share = 1 / row[j];
        for (std::size_t i = j + 1; i < n; ++i) row[i] *= share;
        for (std::size_t i = j + 1; i < n; ++i) add_multiple(row + i, -row[i], n - i, a + i * n + i);
    }
    return log_det;
}

// Rounding errors of T may make a matrix indefinite that is almost singular. A pivot that is only what rounding left,
// or that has fallen to the least although the matrix is far larger, tells nothing: factors of such a matrix have no
// end. Its diagonal is then raised by a share which outweighs rounding.
template <class T> constexpr double rounding = sizeof(T) == sizeof(double) ? 0x1p-52 : 0x1p-23;

template <class T> inline bool is_sound(double pivot, double entry, double least, std::size_t n) {
    const bool lost = pivot <= least * (1 + 1e-12) && double(n) * rounding<T> * entry > 0.5 * least;
    return !lost && pivot > rounding<T> * entry;
}

// The next share by which diagonals are raised after one that was not enough, or none; 0 if there is no other.
template <class T> inline double next_share(double share, std::size_t n) {
    const double next = share > 0 ? 10 * share : double(n) * rounding<T>;
    return next < 0.1 ? next : 0;
}

// The same as `factorise` for a matrix whose numbers are exact to the rounding of T.  INOUT a[n, n]; OUT copy[n, n].
template <class T> inline double factorise_soundly(double *a, std::size_t n, double least, double *copy) {
    std::memcpy(copy, a, n * n * sizeof(double));
    double log_det = factorise(a, n, least);
    for (double share = 0;;) {
        bool sound = true;
        for (std::size_t j = 0; j < n; ++j)
            sound = sound && is_sound<T>(a[j * n + j] * a[j * n + j], (1 + share) * copy[j * n + j], least, n);
        if (sound || (share = next_share<T>(share, n)) == 0) return log_det;
        std::memcpy(a, copy, n * n * sizeof(double));
        for (std::size_t j = 0; j < n; ++j) a[j * n + j] *= 1 + share;
        log_det = factorise(a, n, least);
    }
}

// The inverse of U', which is lower triangular.  IN u[n, n], upper; OUT w[n, n], lower, zeros above.
inline void invert(const double *u, std::size_t n, double *w) {
    for (std::size_t i = 0; i < n; ++i) {
        double *row = w + i * n;
        for (std::size_t j = 0; j < n; ++j) row[j] = 0;
        for (std::size_t j = 0; j < i; ++j) add_multiple(w + j * n, -u[j * n + i], j + 1, row);
        row[i] = 1;
        const double share = 1 / u[i * n + i];
        for (std::size_t j = 0; j <= i; ++j) row[j] *= share;
    }
}

// Solves U't = b in place.  IN u[n, n], upper; INOUT b[n].
inline void solve_lower(const double *u, std::size_t n, double *b) {
    for (std::size_t j = 0; j < n; ++j) {
        b[j] /= u[j * n + j];
        add_multiple(u + j * n + j + 1, -b[j], n - j - 1, b + j + 1);
    }
}

// Solves U z = t in place.  IN u[n, n], upper; INOUT t[n].
inline void solve_upper(const double *u, std::size_t n, double *t) {
    for (std::size_t j = n; j-- > 0;) {
        double rest = t[j];
        for (std::size_t i = j + 1; i < n; ++i) rest -= u[j * n + i] * t[i];
        t[j] = rest / u[j * n + j];
    }
}

} // namespace
