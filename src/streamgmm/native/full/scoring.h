// Scores under full covariances.
#pragma once
#include "../shared/stepping.h"
#include "types.h"

namespace {

// Of this namespace, so that the steps find the functions here.
template <class T> struct FullKind : Full<T> {};

// Whole packs that hold the numbers of row i of F which may differ from zero.
template <class T> inline std::size_t row_length(const Full<T> &m, std::size_t i) {
    return m.lower ? (i / pack_lanes<T> + 1) * pack_lanes<T> : m.stride;
}

template <class T> inline bool is_lower(const Full<T> &m, std::size_t k) {
    for (std::size_t i = 0; i < m.features; ++i)
        for (std::size_t j = i + 1; j < m.features; ++j)
            if (m.factors[(k * m.features + i) * m.stride + j] != T(0)) return false;
    return true;
}

template <class T> inline bool all_lower(const Full<T> &m) {
    for (std::size_t k = 0; k < m.components; ++k)
        if (!is_lower(m, k)) return false;
    return true;
}

// [E35] Half the log-determinant of a precision. F is lower triangular or has orthogonal rows.  INOUT m.
template <class T> inline void refresh(Full<T> &m, std::size_t k) {
    const T *rows = m.factors + k * m.features * m.stride;
    const bool lower = m.lower || is_lower(m, k);
    double log_det = 0;
    for (std::size_t i = 0; i < m.features; ++i) {
        double square = double(rows[i * m.stride + i]) * double(rows[i * m.stride + i]);
        if (!lower) dots<T, 1>(rows + i * m.stride, rows + i * m.stride, 0, m.stride, &square);
        log_det += 0.5 * __builtin_log(square);
    }
    m.log_dets[k] = log_det;
}

// x - mean.  IN x[stride], mean[stride]; OUT away[stride].
template <class T> inline void deviate(const T *x, const T *mean, std::size_t stride, T *away) {
    for (std::size_t d = 0; d < stride; ++d) away[d] = x[d] - mean[d];
}

// y = F (x - mean).  IN away[stride]; OUT y[features].
template <class T> inline void project(const Full<T> &m, std::size_t k, const T *away, double *y) {
    const T *rows = m.factors + k * m.features * m.stride;
    std::size_t i = 0;
    for (; i + 4 <= m.features; i += 4) dots<T, 4>(away, rows + i * m.stride, m.stride, row_length(m, i + 3), y + i);
    for (; i < m.features; ++i) dots<T, 1>(away, rows + i * m.stride, m.stride, row_length(m, i), y + i);
}

// [E38] What the features that a sample has say about those it lacks: Gaussian with mean `expected` about the mean of
// the component and the covariance W'W.
struct Hidden {
    std::size_t *features; // [count] those that are missing
    std::size_t count;
    double *precision; // [count, count] U with U'U = their precision given the others
    double *expected;  // [count]
    double log_det, distance;
};

// Conditions component k on what a sample has. Uses room behind the first `features` numbers, which are y.
// IN away[stride], present[stride]; OUT hidden.
template <class T> inline Hidden condition(const Full<T> &m, std::size_t k, const T *away, const T *present) {
    double *y = m.room, *expected = y + m.stride, *precision = expected + 4 * m.stride;
    std::size_t *features = reinterpret_cast<std::size_t *>(expected + m.stride);
    std::size_t count = 0;
    for (std::size_t d = 0; d < m.features; ++d)
        if (present[d] == T(0)) features[count++] = d;
    project(m, k, away, y);
    double distance = 0;
    for (std::size_t i = 0; i < m.features; ++i) distance += y[i] * y[i];
    for (std::size_t a = 0; a < count; ++a) {
        expected[a] = 0;
        for (std::size_t b = 0; b < count; ++b) precision[a * count + b] = 0;
    }
    for (std::size_t i = 0; i < m.features; ++i) {
        const T *row = m.factors + (k * m.features + i) * m.stride;
        for (std::size_t a = 0; a < count; ++a) {
            const double left = double(row[features[a]]);
            expected[a] -= left * y[i];
            for (std::size_t b = a; b < count; ++b) precision[a * count + b] += left * double(row[features[b]]);
        }
    }
    const double log_det = factorise(precision, count, 1e-300);
    solve_lower(precision, count, expected);
    for (std::size_t a = 0; a < count; ++a) distance -= expected[a] * expected[a];
    solve_upper(precision, count, expected);
    return {features, count, precision, expected, log_det, distance > 0 ? distance : 0};
}

// [E35] [E38] Scores of all samples under component k.  IN m; INOUT b.
template <class T> inline void add_scores(const Full<T> &m, std::size_t k, Batch<T> &b) {
    const double constant = b.log_weights[k] + m.log_dets[k];
    const T *mean = m.means + k * m.stride;
    double *y = m.room;
    for (std::size_t n = 0; n < b.size;) {
        bool whole = n + 4 <= b.size;
        for (std::size_t j = 0; whole && j < 4; ++j) whole = !b.has_gaps[n + j];
        if (whole) {
            double part[4], *ys = m.room + 5 * m.stride; // [4, features]
            for (std::size_t j = 0; j < 4; ++j)
                deviate(b.samples + (n + j) * m.stride, mean, m.stride, m.away + j * m.stride);
            for (std::size_t i = 0; i < m.features; ++i) {
                dots<T, 4>(m.factors + (k * m.features + i) * m.stride, m.away, m.stride, row_length(m, i), part);
                for (std::size_t j = 0; j < 4; ++j) ys[j * m.features + i] = part[j];
            }
            for (std::size_t j = 0; j < 4; ++j, ++n)
                b.scores[n * m.components + k] =
                    log_density(constant, m.features, bounded<T>(sum_of_squares(ys + j * m.features, m.features)));
            continue;
        }
        deviate(b.samples + n * m.stride, mean, m.stride, m.away);
        double &score = b.scores[n * m.components + k];
        if (b.has_gaps[n]) {
            const T *present = b.present + n * m.stride;
            for (std::size_t d = 0; d < m.features; ++d) m.away[d] = present[d] != T(0) ? m.away[d] : T(0);
            const Hidden hidden = condition(m, k, m.away, present);
            score = log_density(constant - hidden.log_det, m.features - hidden.count, bounded<T>(hidden.distance));
        } else {
            project(m, k, m.away, y);
            score = log_density(constant, m.features, bounded<T>(sum_of_squares(y, m.features)));
        }
        ++n;
    }
}

template <class T> void score_full(Full<T> m, Input<T> x, std::size_t rows, Batch<T> b, Answers out) {
    m.lower = all_lower(m);
    score_rows_of(FullKind<T>{m}, x, rows, b, out);
}

template <class T> void refresh_full(Full<T> m, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) refresh(m, k);
}

} // namespace
