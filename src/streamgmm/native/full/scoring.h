// Scores under full covariances.
#pragma once
#include <cmath>

#include "../shared/log_product.h"
#include "../shared/stepping.h"
#include "ahead.h"

namespace {

template <class T> inline bool is_lower(const Full<T> &m, std::size_t k) {
    for (std::size_t i = 0; i < m.features; ++i) {
        const T *row = m.factors + (k * m.features + i) * m.stride;
        int above = 0;
        for (std::size_t j = i + 1; j < m.features; ++j) above |= row[j] != T(0);
        if (above) return false;
    }
    return true;
}

template <class T> inline bool all_lower(const Full<T> &m) {
    for (std::size_t k = 0; k < m.components; ++k)
        if (!is_lower(m, k)) return false;
    return true;
}

// Precision of feature d of a component, given all others: the sum of squares of a column of F.
template <class T> inline double feature_precision(const FullKind<T> &m, std::size_t k, std::size_t d) {
    double sum = 0;
    for (std::size_t i = 0; i < m.features; ++i) {
        const double f = double(m.factors[(k * m.features + i) * m.stride + d]);
        sum += f * f;
    }
    return sum;
}

// [E35] Half the log-determinant of a precision. F is lower triangular or has orthogonal rows.  INOUT m.
template <class T> inline void refresh(Full<T> &m, std::size_t k) {
    const T *rows = m.factors + k * m.features * m.stride;
    const bool lower = m.lower || is_lower(m, k);
    constexpr std::size_t lanes = pack_lanes<double>;
    LogProduct<double> product;
    for (std::size_t first = 0; first < m.features; first += lanes) {
        alignas(64) double lengths[lanes];
        for (std::size_t j = 0; j < lanes; ++j) {
            const std::size_t i = first + j;
            lengths[j] = 1;
            if (i < m.features) lengths[j] = lower ? __builtin_fabs(double(rows[i * m.stride + i])) : length(m, k, i);
            if (!(lengths[j] > 1e-300 && lengths[j] < 1e300)) { // no inverse, or none that is finite
                m.log_dets[k] = __builtin_log(lengths[j]);
                return;
            }
        }
        product.multiply(load(lengths));
    }
    m.log_dets[k] = product.log();
}

// A product with F that is farther away, or not a number because its terms are infinite, counts as this: what is
// expected of other features must stay finite.
constexpr double farthest_product = 1e140;

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
    for (std::size_t i = 0; i < m.features; ++i) {
        y[i] = y[i] < farthest_product ? (y[i] > -farthest_product ? y[i] : -farthest_product) : farthest_product;
        distance += y[i] * y[i];
    }
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
    const double log_det = factorise_soundly<double>(precision, count, 1e-300, precision + m.features * m.features);
    solve_lower(precision, count, expected);
    for (std::size_t a = 0; a < count; ++a) distance -= expected[a] * expected[a];
    solve_upper(precision, count, expected);
    return {features, count, precision, expected, log_det, distance > 0 ? distance : 0};
}

// [E35] Score of component k at a squared distance.
template <class T> inline double score_at(const Full<T> &m, const Batch<T> &b, std::size_t k, double distance) {
    return log_density(b.log_weights[k] + m.log_dets[k], m.features, bounded<T>(distance));
}

// [E35] Scores of R samples without gaps, from n on, under component k: they share each read of F.  IN m; INOUT b.
template <class T, int R> inline void add_scores_of(const Full<T> &m, std::size_t k, std::size_t n, Batch<T> &b) {
    double part[R], *ys = m.room + 5 * m.stride; // [R, features]
    for (std::size_t j = 0; j < R; ++j)
        deviate(b.samples + (n + j) * m.stride, m.means + k * m.stride, m.stride, m.away + j * m.stride);
    for (std::size_t i = 0; i < m.features; ++i) {
        line_dots<T, R>(m.factors + (k * m.features + i) * m.stride, m.away, m.stride, row_length(m, i), part);
        for (std::size_t j = 0; j < R; ++j) ys[j * m.features + i] = part[j];
    }
    for (std::size_t j = 0; j < R; ++j)
        b.scores[(n + j) * m.components + k] = score_at(m, b, k, squared_length(ys + j * m.features, m.features));
}

// [E35] [E38] Scores of all samples under component k.  IN m; INOUT b.
template <class T> inline void add_scores(const Full<T> &m, std::size_t k, Batch<T> &b) {
    for (std::size_t n = 0; n < b.size;) {
        bool whole = n + together <= b.size;
        for (std::size_t j = 0; whole && j < together; ++j) whole = !b.has_gaps[n + j];
        if (whole) {
            add_scores_of<T, together>(m, k, n, b);
            n += together;
            continue;
        }
        deviate(b.samples + n * m.stride, m.means + k * m.stride, m.stride, m.away);
        double &score = b.scores[n * m.components + k];
        if (b.has_gaps[n]) {
            const T *present = b.present + n * m.stride;
            for (std::size_t d = 0; d < m.features; ++d) m.away[d] = present[d] != T(0) ? m.away[d] : T(0);
            const Hidden hidden = condition(m, k, m.away, present);
            score = log_density(b.log_weights[k] + m.log_dets[k] - hidden.log_det, m.features - hidden.count,
                                bounded<T>(hidden.distance));
        } else {
            project(m, k, m.away, m.room);
            score = score_at(m, b, k, squared_length(m.room, m.features));
        }
        ++n;
    }
}

// Exact early abandoning for one sample: a distance only grows with further rows of F, also as rounded, so a component
// that is already too far away is dropped. It gets the lowest score; all others get what `add_scores` gives them.
// Returns how many terms it read, in units of rows of features.  IN m; INOUT b.
template <class T> inline std::size_t score_near(const FullKind<T> &m, Batch<T> &b, double reach) {
    const std::size_t quarter = (m.features / 4 + block_rows) / block_rows * block_rows;
    const std::size_t stage = quarter < m.features ? quarter : m.features;
    std::size_t rows = 0;
    double best = -HUGE_VAL;
    // rows [first, last) of component k; returns the highest score that it may still have
    auto look = [&](std::size_t k, std::size_t first, std::size_t last) {
        double *sums = m.partial + k * block_rows;
        for (std::size_t j = 0; first == 0 && j < block_rows; ++j) sums[j] = 0;
        deviate(b.samples, m.means + k * m.stride, row_length(m, last - 1), m.away);
        project_rows(m, k, m.away, first, last, m.room);
        add_squares(m.room + first, last - first, sums);
        rows += last - first;
        return b.scores[k] = score_at(m, b, k, total_of(sums));
    };
    auto start = [&](std::size_t k) { return is_known(m, k) ? 0 : stage; };
    for (std::size_t k = 0; k < m.components; ++k)
        start(k) == 0 ? b.scores[k] = score_at(m, b, k, least_distance(m, k)) : look(k, 0, stage);
    const std::size_t promising = argmax(b.scores, m.components);
    if (start(promising) < m.features) look(promising, start(promising), m.features);
    best = b.scores[promising];
    for (std::size_t k = 0; k < m.components; ++k) {
        if (k == promising) continue;
        for (std::size_t first = start(k); first < m.features && b.scores[k] >= best - reach; first += stage)
            look(k, first, m.features - first < stage ? m.features : first + stage);
        if (b.scores[k] < best - reach) b.scores[k] = -HUGE_VAL;
        best = b.scores[k] > best ? b.scores[k] : best;
    }
    return rows * m.stride / m.features;
}

template <class T> void score_full(Full<T> m, Input<T> x, std::size_t rows, Batch<T> b, Answers out) {
    m.lower = all_lower(m);
    score_rows_of(FullKind<T>{m}, x, rows, b, out);
}

template <class T> void refresh_full(Full<T> m, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) refresh(m, k);
}

} // namespace
