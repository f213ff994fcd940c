// Running means and covariances of full components.
#pragma once
#include "../shared/triangles.h"
#include "scoring.h"

namespace {

template <class T> inline void begin(Full<T> &, std::size_t, const Limits &) {}

// Rows [i, i + H) of a covariance, from the diagonal on, after all samples that wait, one after the other.  INOUT m.
template <std::size_t H, class T> inline void move_rows(const Full<T> &m, std::size_t k, std::size_t i) {
    using V = typename Lanes<T>::vector;
    const Waiting<T> &own = m.waiting[k];
    T *rows = m.covariances + (k * m.features + i) * m.stride, moves[waiting_most * H];
    for (std::size_t n = 0; n < own.count; ++n)
        for (std::size_t r = 0; r < H; ++r) moves[n * H + r] = own.moves[n] * own.away[n * m.stride + i + r];
    for (std::size_t d = i / line_lanes<T> * line_lanes<T>; d < m.stride; d += vector_lanes<T>) {
        V v[H];
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r) v[r] = load_vector(rows + r * m.stride + d);
        for (std::size_t n = 0; n < own.count; ++n) {
            const V away = load_vector(own.away + n * m.stride + d);
            UNROLLED_FOR (std::size_t r = 0; r < H; ++r) v[r] = own.stays[n] * v[r] + moves[n * H + r] * away;
        }
        UNROLLED_FOR (std::size_t r = 0; r < H; ++r) store_vector(rows + r * m.stride + d, v[r]);
    }
}

// [E36] S' = (1 - r)(S + r a a') for each sample that waits. The lower triangle of S waits until all steps are done.
// INOUT m.
template <class T> inline void move_covariance(Full<T> &m, std::size_t k) {
    if (m.waiting[k].count == 0) return;
    std::size_t i = 0;
    for (; i + 4 <= m.features; i += 4) move_rows<4>(m, k, i);
    for (; i < m.features; ++i) move_rows<1>(m, k, i);
    m.waiting[k].count = 0;
    m.halved[k] = 1;
}

// [E36] Moves a mean by one sample, and lets the covariance wait: it moves by several samples at once, or it would be
// read from memory for each of them.  IN x[stride]; INOUT m.
template <class T>
inline void move_by_one(Full<T> &m, std::size_t k, const T *x, double r, bool means_only, const Limits &limits) {
    Waiting<T> &own = m.waiting[k];
    T *mean = m.own_means + k * m.stride, *away = own.away + own.count * m.stride;
    deviate(x, mean, m.stride, away);
    for (std::size_t d = 0; d < m.stride; ++d) mean[d] += T(r) * away[d];
    drift(m, k, r, total_of(m.partial + k * block_rows));
    if (means_only) return;
    const T farthest = T(__builtin_sqrt(limits.most));
    for (std::size_t d = 0; d < m.stride; ++d) away[d] = limited(away[d], farthest);
    own.stays[own.count] = T(1 - r), own.moves[own.count] = T(r * (1 - r));
    if (++own.count == waiting_most) move_covariance(m, k);
}

// Makes covariances symmetric of which only the upper triangles have moved.  INOUT m.
template <class T> inline void complete(Full<T> &m) {
    for (std::size_t k = 0; k < m.components; ++k) {
        move_covariance(m, k);
        T *rows = m.covariances + k * m.features * m.stride;
        for (std::size_t i = 0; m.halved[k] != 0 && i < m.features; ++i)
            for (std::size_t j = 0; j < i; ++j) rows[i * m.stride + j] = rows[j * m.stride + i];
    }
}

// Adds a sample with weight w to sums of deviations and their products about the statistics' mean; what it lacks is
// what the others lead one to expect.  INOUT first[features], second[features, features], upper triangle.
template <class T>
inline void add_products(const Full<T> &m, std::size_t k, const Batch<T> &b, std::size_t n, double w, double farthest,
                         double *away, double *first, double *second) {
    const std::size_t d = m.features;
    const T *x = b.samples + n * m.stride, *mean = m.means + k * m.stride, *own = m.own_means + k * m.stride;
    for (std::size_t i = 0; i < d; ++i) away[i] = limited(double(x[i]) - double(own[i]), farthest);
    if (b.has_gaps[n]) {
        const T *present = b.present + n * m.stride;
        for (std::size_t i = 0; i < m.stride; ++i) m.away[i] = present[i] != T(0) ? x[i] - mean[i] : T(0);
        const Hidden hidden = condition(m, k, m.away, present);
        double *inverse = hidden.precision + d * d;
        invert(hidden.precision, hidden.count, inverse);
        for (std::size_t a = 0; a < hidden.count; ++a) {
            const std::size_t i = hidden.features[a];
            away[i] = limited(double(mean[i]) + hidden.expected[a] - double(own[i]), farthest);
            const double *row = inverse + a * hidden.count; // their covariance is W'W
            for (std::size_t e = 0; e <= a; ++e)
                for (std::size_t f = e; f <= a; ++f)
                    second[hidden.features[e] * d + hidden.features[f]] += w * row[e] * row[f];
        }
    }
    for (std::size_t i = 0; i < d; ++i) {
        first[i] += w * away[i];
        add_multiple(away + i, w * away[i], d - i, second + i * d + i);
    }
}

// [E36] Moves mean and covariance by the samples of a batch.  INOUT m; IN b.
template <class T>
inline void move(Full<T> &m, std::size_t k, const Batch<T> &b, double r, bool means_only, const Limits &limits) {
    if (b.size == 1 && !b.has_gaps[0]) return move_by_one(m, k, b.samples, r, means_only, limits);
    move_covariance(m, k);
    const std::size_t d = m.features;
    // behind what `condition` uses
    double *first = m.room + 3 * m.stride, *away = first + m.stride, *second = m.room + 5 * m.stride + 2 * d * d;
    const double farthest = __builtin_sqrt(limits.most), part = r / b.received[k];
    for (std::size_t i = 0; i < d; ++i) first[i] = 0;
    for (std::size_t i = 0; i < d * d; ++i) second[i] = 0;
    for (std::size_t n = 0; n < b.size; ++n) {
        const double w = b.scores[n * m.components + k];
        if (w >= negligible<T>) add_products(m, k, b, n, w, farthest, away, first, second);
    }
    T *mean = m.own_means + k * m.stride;
    for (std::size_t i = 0; i < d; ++i) mean[i] = T(double(mean[i]) + part * first[i]);
    for (std::size_t i = 0; i < d && !means_only; ++i)
        for (std::size_t j = i; j < d; ++j) {
            T *row = m.covariances + k * d * m.stride;
            const double old = double(row[i * m.stride + j]);
            const double moved = (1 - r) * old + part * second[i * d + j] - part * first[i] * (part * first[j]);
            row[i * m.stride + j] = row[j * m.stride + i] = T(moved);
        }
}

// The matrix root_i S_ij root_j + δ_ij more_i, in vectors.
template <class T> struct Scaled {
    const T *rows;
    std::size_t stride;
    const double *roots, *more;

    Doubles operator()(std::size_t i, std::size_t j) const {
        return roots[i] * load_doubles(rows + i * stride + j) * load_vector(roots + j);
    }

    // The element at (i, i).
    double at(std::size_t i) const { return roots[i] * double(rows[i * stride + i]) * roots[i] + more[i]; }
};

// Whether U is more than what rounding left.  IN u[d, stride].
template <class T> inline bool is_sound_factor(const Scaled<T> &matrix, std::size_t d, double least, const double *u) {
    bool sound = true;
    for (std::size_t i = 0; i < d; ++i) {
        const double root = u[i * matrix.stride + i];
        sound = sound && is_sound<T>(root * root, matrix.at(i), least, d);
    }
    return sound;
}

// [E36] The factor of the precision of a component from its covariance and the prior.  INOUT m.
template <class T> inline void settle(Full<T> &m, std::size_t k, const Limits &limits) {
    move_covariance(m, k);
    const std::size_t d = m.features;
    double *u = m.room + 5 * m.stride, *w = u + d * m.stride, *roots = m.room, *own = roots + m.stride;
    for (std::size_t i = 0; i < m.stride; ++i) {
        const Blended<T> with = i < d ? blended(m, k, i, limits) : Blended<T>{0, 1};
        roots[i] = with.root;
        own[i] = with.own > limits.least ? with.own : limits.least;
    }
    const Scaled<T> blend = {m.covariances + k * d * m.stride, m.stride, roots, own};
    T *factor = m.factors + k * d * m.stride;
    double *inverse = w;
    if constexpr (sizeof(T) == sizeof(double)) inverse = factor;
    invert_factor(blend, d, m.stride, limits.least, u, inverse);
    for (double share = 0; !is_sound_factor(blend, d, limits.least, u) && (share = next_share<T>(share, d)) > 0;) {
        for (std::size_t i = 0; i < d; ++i) own[i] += share * blend.at(i);
        invert_factor(blend, d, m.stride, limits.least, u, inverse);
    }
    for (std::size_t i = 0; inverse == w && i < d * m.stride; ++i) factor[i] = T(w[i]);
    refresh(m, k);
    look_again(m, k);
}

// Statistics lead to triangular factors, whatever form those to start from have.  INOUT m.
template <class T> inline void start_steps(Full<T> &m) {
    m.lower = all_lower(m);
    for (std::size_t k = 0; k < m.components; ++k) m.halved[k] = m.waiting[k].count = 0;
}

template <class T>
void natural_steps_full(Full<T> m, Input<T> x, std::size_t steps, Filter g, NaturalStep step, Batch<T> b,
                        Report report) {
    start_steps(m);
    if (!m.lower || !g.identity || step.scan_all || b.size > 1 || x.gaps) m.ahead.panels = nullptr;
    for (std::size_t k = 0; m.ahead.panels && k < m.components; ++k) m.ahead.drifts[k] = HUGE_VAL;
    natural_steps_of(FullKind<T>{m}, x, steps, g, step, b, report);
    complete(m);
}

template <class T>
void em_steps_full(Full<T> m, Input<T> x, std::size_t steps, EmStep step, Batch<T> b, Report report) {
    start_steps(m);
    em_steps_of(FullKind<T>{m}, x, steps, step, b, report);
    complete(m);
}

template <class T>
void settle_full(Full<T> m, double scale_min, double scale_max, std::size_t first, std::size_t last) {
    settle_all<T>(FullKind<T>{m}, scale_min, scale_max, first, last);
}

} // namespace
