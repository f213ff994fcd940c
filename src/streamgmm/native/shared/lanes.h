// Packs of 128 bytes, independent of the machine's vector width.
//
// A pack has the same lanes in every object, so a sum over features adds the same numbers in the same order with
// 16-, 32- and 64-byte vectors. Objects differ only in which products and sums the compiler fuses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "types.h"

#ifndef STREAMGMM_WIDTH
#error "compile with -DSTREAMGMM_WIDTH=<bytes of a hardware vector>"
#endif

#if defined(__clang__)
#define UNROLLED_FOR _Pragma("unroll") for
#define ROLLED_FOR _Pragma("nounroll") for
#else
#define UNROLLED_FOR _Pragma("GCC unroll 16") for
#define ROLLED_FOR _Pragma("GCC unroll 1") for
#endif

// Everything that the loops use has internal linkage: the linker must never replace one object's code by another's.
namespace {

using namespace streamgmm;

constexpr std::size_t pack_vectors = pack_bytes / STREAMGMM_WIDTH;

template <class T> struct Lanes;
template <> struct Lanes<float> {
    typedef float vector __attribute__((vector_size(STREAMGMM_WIDTH)));
    typedef float anywhere __attribute__((vector_size(STREAMGMM_WIDTH), aligned(4), may_alias));
    typedef std::int32_t integer;
    typedef integer bits __attribute__((vector_size(STREAMGMM_WIDTH)));
    static constexpr int mantissa_bits = 23;
    static constexpr std::int32_t bias = 127, mantissa_mask = 0x7fffff, one = 0x3f800000;
    static constexpr std::int32_t root_guess = 0x5f3759df;
    static constexpr int root_turns = 3, root_turns_needed = 3;
};
template <> struct Lanes<double> {
    typedef double vector __attribute__((vector_size(STREAMGMM_WIDTH)));
    typedef double anywhere __attribute__((vector_size(STREAMGMM_WIDTH), aligned(8), may_alias));
    typedef std::int64_t integer;
    typedef integer bits __attribute__((vector_size(STREAMGMM_WIDTH)));
    static constexpr int mantissa_bits = 52;
    static constexpr std::int64_t bias = 1023, mantissa_mask = 0xfffffffffffffLL, one = 0x3ff0000000000000LL;
    static constexpr std::int64_t root_guess = 0x5fe6eb50c7b537a9LL;
    static constexpr int root_turns = 5, root_turns_needed = 4;
};

template <class T> constexpr std::size_t pack_lanes = pack_bytes / sizeof(T);

template <class T> struct Pack {
    typename Lanes<T>::vector v[pack_vectors];
};

template <class T> constexpr std::size_t vector_lanes = STREAMGMM_WIDTH / sizeof(T);

template <class T> inline typename Lanes<T>::vector load_vector(const T *from) {
    return *reinterpret_cast<const typename Lanes<T>::anywhere *>(from);
}

template <class T> inline void store_vector(T *to, typename Lanes<T>::vector v) {
    *reinterpret_cast<typename Lanes<T>::anywhere *>(to) = v;
}

// A vector of `count` numbers, which may be the last few of an array; `rest` in the lanes behind them.
template <class T> inline typename Lanes<T>::vector load_some(const T *from, std::size_t count, T rest = 0) {
    if (count == vector_lanes<T>) return load_vector(from);
    T lane[vector_lanes<T>];
    for (T &value : lane) value = rest;
    std::memcpy(lane, from, count * sizeof(T));
    return load_vector(lane);
}

template <class T> inline void store_some(T *to, std::size_t count, typename Lanes<T>::vector v) {
    if (count == vector_lanes<T>) return store_vector(to, v);
    T lane[vector_lanes<T>];
    store_vector(lane, v);
    std::memcpy(to, lane, count * sizeof(T));
}

// Vector of numbers as float64.
template <class T> inline Lanes<double>::vector load_doubles(const T *from) {
    if constexpr (sizeof(T) == sizeof(double)) {
        return load_vector(from);
    } else {
        typedef T some __attribute__((vector_size(STREAMGMM_WIDTH / 2), aligned(sizeof(T)), may_alias));
        return __builtin_convertvector(*reinterpret_cast<const some *>(from), Lanes<double>::vector);
    }
}

template <class T> inline Pack<T> load(const T *from) {
    Pack<T> p;
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) p.v[i] = load_vector(from + i * vector_lanes<T>);
    return p;
}

template <class T> inline void store(T *to, const Pack<T> &p) {
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) store_vector(to + i * vector_lanes<T>, p.v[i]);
}

template <class T> inline Pack<T> fill(T value) {
    Pack<T> p;
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) p.v[i] = typename Lanes<T>::vector{} + value;
    return p;
}

// Whether any lane is set.
template <class Mask> inline bool any_lane(Mask mask) {
    std::uint64_t part[sizeof(Mask) / 8], all = 0;
    std::memcpy(part, &mask, sizeof mask);
    for (std::uint64_t bits : part) all |= bits;
    return all != 0;
}

// Lower or upper halves of all segments of a, then of b; each vector consists of S segments.
template <class T, std::size_t S, bool upper, std::size_t... lane>
inline typename Lanes<T>::vector halves(typename Lanes<T>::vector a, typename Lanes<T>::vector b,
                                        std::index_sequence<lane...>) {
    constexpr std::size_t n = vector_lanes<T>, half = n / S / 2;
    return __builtin_shufflevector(
        a, b, ((lane / half / S ? n : 0) + lane / half % S * 2 * half + lane % half + upper * half)...);
}

// Sums the segments of R vectors by halving: adds entry i + half of a segment to entry i. The R sums end up in the
// first lanes.
template <class T, std::size_t S, int R> inline typename Lanes<T>::vector fold(const typename Lanes<T>::vector *v) {
    if constexpr (S == vector_lanes<T>) {
        return v[0];
    } else {
        constexpr auto lanes = std::make_index_sequence<vector_lanes<T>>();
        typename Lanes<T>::vector next[R > 1 ? R / 2 : 1];
        UNROLLED_FOR (int j = 0; j < (R > 1 ? R / 2 : 1); ++j) {
            const auto a = v[2 * j], b = v[R > 1 ? 2 * j + 1 : 0];
            next[j] = halves<T, S, false>(a, b, lanes) + halves<T, S, true>(a, b, lanes);
        }
        return fold<T, 2 * S, (R > 1 ? R / 2 : 1)>(next);
    }
}

// Sums the lanes of each of R packs; the order of additions does not depend on R.  IN p[R], OUT out[R].
template <class T, int R> inline void sums(const Pack<T> *p, T *out) {
    static_assert((R & (R - 1)) == 0, "packs are added up in pairs");
    constexpr int together = R < int(vector_lanes<T>) ? R : int(vector_lanes<T>);
    UNROLLED_FOR (int first = 0; first < R; first += together) {
        typename Lanes<T>::vector v[together];
        UNROLLED_FOR (int j = 0; j < together; ++j) {
            typename Lanes<T>::vector q[pack_vectors]; // no copy of the pack, which would go through memory
            UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) q[i] = p[first + j].v[i];
            UNROLLED_FOR (std::size_t half = pack_vectors / 2; half > 0; half /= 2)
                UNROLLED_FOR (std::size_t i = 0; i < half; ++i) q[i] += q[i + half];
            v[j] = q[0];
        }
        const auto total = fold<T, 1, together>(v);
        UNROLLED_FOR (int j = 0; j < together; ++j) out[first + j] = total[j];
    }
}

template <class T> inline T sum(const Pack<T> &p) {
    T total;
    sums<T, 1>(&p, &total);
    return total;
}

// Sets the lanes from `used` on, a row's padding, to `value`.
template <class T> inline Pack<T> pad(const Pack<T> &p, std::size_t used, T value) {
    alignas(64) T lane[pack_lanes<T>];
    store(lane, p);
    for (std::size_t i = used; i < pack_lanes<T>; ++i) lane[i] = value;
    return load(lane);
}

// 1/p with one division per two vectors: division is the slowest operation of an update.
template <class T> inline Pack<T> reciprocal(const Pack<T> &p) {
    Pack<T> r;
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors / 2; ++i) {
        const auto a = p.v[i], b = p.v[i + pack_vectors / 2];
        const auto both = T(1) / (a * b);
        r.v[i] = b * both;
        r.v[i + pack_vectors / 2] = a * both;
    }
    return r;
}

// 1/sqrt(p) by Newton's method from a bit-level guess. For positive numbers in the normal range it is accurate to a bit
// or two, and three times as fast as a square root and a division. Vectors take turns, because each turn of one waits
// for the turn before.
template <class T, int turns = Lanes<T>::root_turns> inline Pack<T> inverse_root(const Pack<T> &p) {
    Pack<T> y;
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
        typename Lanes<T>::bits b;
        std::memcpy(&b, &p.v[i], sizeof b);
        b = Lanes<T>::root_guess - (b >> 1);
        std::memcpy(&y.v[i], &b, sizeof b);
    }
    UNROLLED_FOR (int turn = 0; turn < turns; ++turn)
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i)
            y.v[i] = y.v[i] * (T(1.5) - T(0.5) * p.v[i] * y.v[i] * y.v[i]);
    return y;
}

} // namespace
