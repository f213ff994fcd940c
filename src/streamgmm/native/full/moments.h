// Running means and covariances of full components.
#pragma once
#include "../shared/triangles.h"
#include "scoring.h"

namespace {

template <class T> inline void begin(Full<T> &, std::size_t, const Limits &) {}

// [E36] Moves mean and covariance by one sample: S' = (1 - r)(S + r a a'). The lower triangle of S waits until all
// steps are done: half of the memory that a step touches.  IN x[stride]; INOUT m.
template <class T>
inline void move_by_one(Full<T> &m, std::size_t k, const T *x, double r, bool means_only, const Limits &limits) {
    T *mean = m.own_means + k * m.stride, *away = m.away;
    deviate(x, mean, m.stride, away);
    for (std::size_t d = 0; d < m.stride; ++d) mean[d] += T(r) * away[d];
    if (means_only) return;
    const T farthest = T(__builtin_sqrt(limits.most)), stays = T(1 - r), moves = T(r * (1 - r));
    for (std::size_t d = 0; d < m.stride; ++d) away[d] = limited(away[d], farthest);
    m.halved[k] = 1;
    for (std::size_t i = 0; i < m.features; ++i) {
        T *row = m.covariances + (k * m.features + i) * m.stride;
        const T own = moves * away[i];
        for (std::size_t d = i / line_lanes<T> * line_lanes<T>; d < m.stride; ++d)
            row[d] = stays * row[d] + own * away[d];
    }
}

// Makes covariances symmetric of which only the upper triangles have moved.  INOUT m.
template <class T> inline void complete(Full<T> &m) {
    for (std::size_t k = 0; k < m.components; ++k) {
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

// [E36] The factor of the precision of a component from its covariance and the prior.  INOUT m.
template <class T> inline void settle(Full<T> &m, std::size_t k, const Limits &limits) {
    const std::size_t d = m.features;
    double *a = m.room + 5 * m.stride, *w = a + d * m.stride, *roots = m.room, *own = roots + m.stride;
    for (std::size_t i = 0; i < m.stride; ++i) {
        const Blended<T> with = i < d ? blended(m, k, i, limits) : Blended<T>{0, 1};
        roots[i] = with.root;
        own[i] = with.own > limits.least ? with.own : limits.least;
    }
    for (std::size_t i = 0; i < d; ++i) {
        const T *row = m.covariances + (k * d + i) * m.stride;
        for (std::size_t j = i / line_lanes<T> * line_lanes<T>; j < m.stride; ++j)
            a[i * m.stride + j] = roots[i] * double(row[j]) * roots[j];
        a[i * (m.stride + 1)] += own[i];
    }
    factorise(a, d, m.stride, limits.least);
    T *factor = m.factors + k * d * m.stride;
    if constexpr (sizeof(T) == sizeof(double)) {
        invert(a, d, m.stride, factor);
    } else {
        invert(a, d, m.stride, w);
        for (std::size_t i = 0; i < d * m.stride; ++i) factor[i] = T(w[i]);
    }
    refresh(m, k);
}

// Statistics lead to triangular factors, whatever form those to start from have.  INOUT m.
template <class T> inline void start_steps(Full<T> &m) {
    m.lower = all_lower(m);
    for (std::size_t k = 0; k < m.components; ++k) m.halved[k] = 0;
}

template <class T>
void natural_steps_full(Full<T> m, Input<T> x, std::size_t steps, Filter g, NaturalStep step, Batch<T> b,
                        Report report) {
    start_steps(m);
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
