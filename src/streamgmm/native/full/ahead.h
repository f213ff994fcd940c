// Looking ahead: a step changes few components, so scores of the next samples under all others are known before their
// turn. Samples share each read of F, which is kept in single precision for this. What comes out are lower bounds of
// distances; only components that these do not rule out are scored, so results do not depend on them.
#pragma once
#include <cmath>

#include "../shared/rows.h"
#include "projecting.h"

namespace {

static_assert(ahead_lanes == line_lanes<float>, "a column of a panel is a line");
constexpr int ahead_at_once = together < int(ahead_rows) ? together : int(ahead_rows);
constexpr std::size_t rounds_between_tries = 64;
constexpr double lost = 1e-15; // more than what single precision loses below its range

inline std::size_t panel_start(std::size_t p) { return p * (p + 1) / 2 * ahead_lanes * ahead_lanes; }

template <class T> inline float *panels_of(const Full<T> &m, std::size_t k) {
    return m.ahead.panels + k * panel_start((m.features + ahead_lanes - 1) / ahead_lanes);
}

// Every other number of a and b in turn, from their lower or upper halves.
template <bool upper, std::size_t... lane>
inline Lanes<float>::vector zip(Lanes<float>::vector a, Lanes<float>::vector b, std::index_sequence<lane...>) {
    constexpr std::size_t n = vector_lanes<float>;
    return __builtin_shufflevector(a, b, (lane / 2 + lane % 2 * n + upper * n / 2)...);
}

// INOUT v[vector_lanes].
inline void transpose(Lanes<float>::vector *v) {
    constexpr std::size_t n = vector_lanes<float>;
    constexpr auto lanes = std::make_index_sequence<n>();
    UNROLLED_FOR (std::size_t turn = 1; turn < n; turn *= 2) {
        Lanes<float>::vector next[n];
        UNROLLED_FOR (std::size_t j = 0; j < n / 2; ++j) {
            next[2 * j] = zip<false>(v[j], v[j + n / 2], lanes);
            next[2 * j + 1] = zip<true>(v[j], v[j + n / 2], lanes);
        }
        UNROLLED_FOR (std::size_t j = 0; j < n; ++j) v[j] = next[j];
    }
}

// Numbers of T that become a vector of floats.
template <class T> struct Wide {
    typedef T vector
        __attribute__((vector_size(STREAMGMM_WIDTH / sizeof(float) * sizeof(T)), aligned(sizeof(T)), may_alias));
    static const vector &at(const T *from) { return *reinterpret_cast<const vector *>(from); }
    static Lanes<float>::vector narrow(vector v) { return __builtin_convertvector(v, Lanes<float>::vector); }
};

// Sums the lanes of R vectors.  IN v[R]; OUT out[R].
template <int R> inline void fold_all(const Lanes<float>::vector *v, float *out) {
    constexpr int folded = R < int(vector_lanes<float>) ? R : int(vector_lanes<float>);
    UNROLLED_FOR (int n = 0; n < R; n += folded) {
        const auto total = fold<float, 1, folded>(v + n);
        UNROLLED_FOR (int i = 0; i < folded; ++i) out[n + i] = total[i];
    }
}

// Copies the first rows of F, which is lower triangular, to panels of 16 rows: number l of column j of a panel is that
// of its row l. INOUT m.
template <class T> inline void copy_panels(Full<T> &m, std::size_t k) {
    using V = Lanes<float>::vector;
    constexpr std::size_t n = vector_lanes<float>;
    const T *rows = m.factors + k * m.features * m.stride;
    float *panels = panels_of(m, k);
    V squares = {};
    for (std::size_t i = 0; i < m.ahead.rows; i += n) {
        const std::size_t p = i / ahead_lanes;
        for (std::size_t j = 0; j < (p + 1) * ahead_lanes; j += n) {
            V v[n];
            UNROLLED_FOR (std::size_t r = 0; r < n; ++r) {
                v[r] = i + r < m.features ? Wide<T>::narrow(Wide<T>::at(rows + (i + r) * m.stride + j)) : V{};
                squares += v[r] * v[r];
            }
            transpose(v);
            float *to = panels + panel_start(p) + j * ahead_lanes + i % ahead_lanes;
            UNROLLED_FOR (std::size_t c = 0; c < n; ++c) store_vector(to + c * ahead_lanes, v[c]);
        }
    }
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) total += double(squares[i]);
    m.ahead.sizes[k] = __builtin_sqrt(total);
}

// Squares of the first rows of F (x - mean), whole panels, summed for R samples.  IN panels, away[R, stride]; OUT
// out[R].
template <int R>
inline void panel_squares(const float *panels, const float *away, std::size_t stride, std::size_t rows, float *out) {
    using V = Lanes<float>::vector;
    constexpr std::size_t lanes = vector_lanes<float>;
    V squares[R];
    UNROLLED_FOR (int n = 0; n < R; ++n) squares[n] = V{};
    for (std::size_t stop = ahead_lanes; stop <= rows; stop += ahead_lanes) {
        V y[R][line_vectors];
        UNROLLED_FOR (int n = 0; n < R; ++n)
            UNROLLED_FOR (std::size_t i = 0; i < line_vectors; ++i) y[n][i] = V{};
        for (std::size_t j = 0; j < stop; ++j, panels += ahead_lanes)
            UNROLLED_FOR (std::size_t i = 0; i < line_vectors; ++i) {
                const V column = load_vector(panels + i * lanes);
                UNROLLED_FOR (int n = 0; n < R; ++n) y[n][i] += away[n * stride + j] * column;
            }
        UNROLLED_FOR (int n = 0; n < R; ++n)
            UNROLLED_FOR (std::size_t i = 0; i < line_vectors; ++i) squares[n] += y[n][i] * y[n][i];
    }
    fold_all<R>(squares, out);
}

// x - mean for R samples, and its squared lengths.  IN samples[R, stride], mean; OUT away[R, stride], out[R].
template <int R, class T>
inline void narrow_deviations(const T *samples, const T *mean, std::size_t stride, std::size_t count, float *away,
                              float *out) {
    using V = Lanes<float>::vector;
    V squares[R];
    UNROLLED_FOR (int n = 0; n < R; ++n) squares[n] = V{};
    for (std::size_t d = 0; d < count; d += vector_lanes<float>) {
        const auto centre = Wide<T>::at(mean + d);
        UNROLLED_FOR (int n = 0; n < R; ++n) {
            const V a = Wide<T>::narrow(Wide<T>::at(samples + n * stride + d) - centre);
            store_vector(away + n * stride + d, a);
            squares[n] += a * a;
        }
    }
    fold_all<R>(squares, out);
}

// Lower bounds of |F (x - mean)|, as steps will round it, for all samples to come under component k. With n features a
// product in single precision errs by at most (n + 3) 2^-24 |F| |x - mean|, and so does one of T.  INOUT m.
template <class T> inline void look_at(Full<T> &m, std::size_t k) {
    const Ahead<T> &ahead = m.ahead;
    const T *mean = m.means + k * m.stride;
    const double error = 4 * double(m.features + 4) * 0x1p-24, size = error * (ahead.sizes[k] + lost);
    float squares[ahead_rows], away[ahead_rows];
    for (std::size_t n = 0; n < ahead_rows; n += ahead_at_once) {
        narrow_deviations<ahead_at_once>(ahead.samples + n * m.stride, mean, m.stride, ahead.rows, ahead.away,
                                         away + n);
        panel_squares<ahead_at_once>(panels_of(m, k), ahead.away, m.stride, ahead.rows, squares + n);
    }
    double *lengths = ahead.lengths + k * ahead_rows;
    for (std::size_t n = 0; n < ahead_rows; ++n) {
        const double square = double(squares[n]);
        const double least = (1 - error) * __builtin_sqrt(square) - size * (__builtin_sqrt(double(away[n])) + lost);
        lengths[n] = (least > 0) & (square < 1e37) ? least : 0; // also for NaN
    }
}

// Looks ahead from row t on, when its turn has come: at all rows of F if a try with half of them has left too many
// components to be scored. It takes a fifth of the time that a component takes which must be scored.
// IN x, report; INOUT m.
template <class T>
inline void look_ahead(FullKind<T> &m, const Input<T> &x, std::size_t t, std::size_t steps, const Report &report) {
    Ahead<T> &ahead = m.ahead;
    ahead.turn = t % ahead_rows;
    if (!ahead.panels || ahead.turn != 0) return;
    const std::size_t panels = (m.features + ahead_lanes - 1) / ahead_lanes,
                      round = t / ahead_rows % rounds_between_tries;
    if (round == 0) {
        ahead.rows = (panels + 1) / 2 * ahead_lanes;
        ahead.read = *report.terms_read;
    } else if (round == 1 &&
               *report.terms_read - ahead.read > std::int64_t(ahead_rows * m.stride * (1 + m.components / 5))) {
        ahead.rows = panels * ahead_lanes;
        for (std::size_t k = 0; k < m.components; ++k) ahead.drifts[k] = HUGE_VAL;
    }
    for (std::size_t n = 0; n < ahead_rows && t + n < steps; ++n)
        take_row(x, t + n, m.features, m.stride, ahead.samples + n * m.stride);
    for (std::size_t k = 0; k < m.components; ++k) {
        if (ahead.drifts[k] == HUGE_VAL) copy_panels(m, k);
        ahead.drifts[k] = 0;
        look_at(m, k);
    }
}

// The factor of component k is new: what was known of it is no longer true. Where all rows of F are looked at, most
// components come close to most samples, so it pays to look again for the samples to come.  INOUT m.
template <class T> inline void look_again(Full<T> &m, std::size_t k) {
    Ahead<T> &ahead = m.ahead;
    if (!ahead.panels) return;
    ahead.drifts[k] = HUGE_VAL;
    if (ahead.rows < m.features || ahead.turn + 1 == ahead_rows) return;
    copy_panels(m, k);
    ahead.drifts[k] = 0;
    look_at(m, k);
}

// Whether there is a bound for component k.
template <class T> inline bool is_known(const Full<T> &m, std::size_t k) {
    return m.ahead.panels && m.ahead.drifts[k] != HUGE_VAL;
}

// Lower bound of the squared distance of the sample at turn from component k.  IN m.
template <class T> inline double least_distance(const Full<T> &m, std::size_t k) {
    const double length = m.ahead.lengths[k * ahead_rows + m.ahead.turn] - m.ahead.drifts[k];
    return length > 0 ? length * length : 0;
}

// A mean has moved by a share r of its sample's deviation, whose F (x - mean) has this squared length.  INOUT m.
template <class T> inline void drift(Full<T> &m, std::size_t k, double r, double distance) {
    if (!is_known(m, k)) return;
    const T *mean = m.means + k * m.stride;
    constexpr double rounding = sizeof(T) == sizeof(double) ? 0x1p-51 : 0x1p-22;
    double square;
    line_dots<T, 1>(mean, mean, 0, m.stride, &square);
    m.ahead.drifts[k] += (1 + 1e-5) * r * __builtin_sqrt(distance) +
                         rounding * (m.ahead.sizes[k] + lost) * (__builtin_sqrt(square) + lost);
}

} // namespace
