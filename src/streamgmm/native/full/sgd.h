// Gradient ascent in the spectral form of a precision: P = Σ λ_i² v_i v_i', where row i of F is λ_i v_i'.
#pragma once
#include "scoring.h"

namespace {

// Makes the rows of F orthogonal in place, the first ones staying closest to what they are; their norms are λ.
// IN lambda[features]; INOUT rows[features, stride].
template <class T> inline void orthogonalise(const Full<T> &m, std::size_t k, const double *lambda) {
    T *rows = m.factors + k * m.features * m.stride;
    double *basis = m.room + 5 * m.stride;
    const std::size_t d = m.features;
    for (std::size_t i = 0; i < d; ++i) {
        double *own = basis + i * d;
        for (std::size_t j = 0; j < d; ++j) own[j] = double(rows[i * m.stride + j]);
        double left = 0;
        for (int turn = 0; turn < 3; ++turn) { // again where little is left: that is not orthogonal enough
            double before = 0;
            left = 0;
            for (std::size_t j = 0; j < d; ++j) before += own[j] * own[j];
            for (std::size_t j = 0; j < i; ++j) {
                double along = 0;
                for (std::size_t c = 0; c < d; ++c) along += basis[j * d + c] * own[c];
                add_multiple(basis + j * d, -along, d, own);
            }
            for (std::size_t j = 0; j < d; ++j) left += own[j] * own[j];
            if (left > 0.5 * before) break;
            if (left > 1e-20 * before && left > 1e-280) continue;
            for (std::size_t j = 0; j < d; ++j)
                own[j] = j == (i + std::size_t(turn)) % d ? 1 : 0; // any other direction
        }
        const double share = 1 / __builtin_sqrt(left);
        for (std::size_t j = 0; j < d; ++j) {
            own[j] *= share;
            rows[i * m.stride + j] = T(lambda[i] * own[j]);
        }
    }
}

// A mean follows absurd samples so far at a time: products with F stay finite.
template <class T> constexpr T longest_step = T(1e100);
template <> constexpr float longest_step<float> = 1e18f;

// P a = F'(F a).  IN y[features] = F a; OUT out[features].
template <class T> inline void pull_back(const Full<T> &m, std::size_t k, const double *y, double *out) {
    for (std::size_t j = 0; j < m.features; ++j) out[j] = 0;
    for (std::size_t i = 0; i < m.features; ++i) {
        const T *row = m.factors + (k * m.features + i) * m.stride;
        for (std::size_t j = 0; j < m.features; ++j) out[j] += y[i] * double(row[j]);
    }
}

// Gradient of a marginal: what is missing is what the others lead one to expect, with its uncertainty, which is W'W.
// INOUT m.away, second[features], turns[features, features].
template <class T>
inline void take_expected(const Full<T> &m, std::size_t k, const T *present, double w, const double *lambda,
                          double *second, double *turns) {
    const std::size_t d = m.features;
    for (std::size_t i = 0; i < d; ++i) m.away[i] = present[i] != T(0) ? m.away[i] : T(0);
    const Hidden hidden = condition(m, k, m.away, present);
    double *inverse = hidden.precision + d * d, *along = second + m.stride, *pulled = along + m.stride;
    invert(hidden.precision, hidden.count, inverse);
    for (std::size_t a = 0; a < hidden.count; ++a) m.away[hidden.features[a]] = T(hidden.expected[a]);
    T *direction = m.away + m.stride; // a row of W, as a vector of all features
    double *y = m.room;
    for (std::size_t a = 0; a < hidden.count; ++a) {
        for (std::size_t j = 0; j < m.stride; ++j) direction[j] = T(0);
        for (std::size_t e = 0; e <= a; ++e) direction[hidden.features[e]] = T(inverse[a * hidden.count + e]);
        project(m, k, direction, y);
        pull_back(m, k, y, pulled);
        for (std::size_t i = 0; i < d; ++i) {
            along[i] = y[i] / lambda[i];
            second[i] += w * along[i] * along[i];
            for (std::size_t j = 0; j < d; ++j)
                turns[i * d + j] += w * along[i] * (pulled[j] - lambda[i] * lambda[i] * double(direction[j]));
        }
    }
}

// [E37] Moves one component by the samples of a step.  IN b; INOUT m.
template <class T> inline void climb(Full<T> &m, std::size_t k, const Batch<T> &b, const SgdStep &step) {
    const std::size_t d = m.features;
    const double rate = step.rate / double(b.size), mass = b.received[k];
    T *rows = m.factors + k * d * m.stride, *mean = m.means + k * m.stride;
    // behind what `condition` uses
    double *turns = m.room + 5 * m.stride + 2 * d * d; // Σ w y_i (P - λ_i²) a, with y_i = v_i'a
    double *y = m.room, *lambda = turns + d * d, *first = lambda + m.stride, *second = first + m.stride;
    double *pulled = second + 2 * m.stride;
    for (std::size_t i = 0; i < d; ++i) {
        lambda[i] = length(m, k, i);
        first[i] = second[i] = 0;
    }
    for (std::size_t i = 0; i < d * d; ++i) turns[i] = 0;
    for (std::size_t n = 0; n < b.size; ++n) {
        const double w = b.scores[n * m.components + k];
        if (w < negligible<T>) continue;
        deviate(b.samples + n * m.stride, mean, m.stride, m.away);
        for (std::size_t j = 0; j < d; ++j) m.away[j] = limited(m.away[j], longest_step<T>);
        if (b.has_gaps[n]) take_expected(m, k, b.present + n * m.stride, w, lambda, second, turns);
        project(m, k, m.away, y);
        pull_back(m, k, y, pulled);
        for (std::size_t i = 0; i < d; ++i) {
            const double along = y[i] / lambda[i], square = along * along;
            first[i] += w * along;
            second[i] += w * (square < 1e300 ? square : 1e300);
            double *turn = turns + i * d;
            const double own = lambda[i] * lambda[i];
            for (std::size_t j = 0; j < d; ++j) turn[j] += w * along * (pulled[j] - own * double(m.away[j]));
        }
    }
    for (std::size_t i = 0; i < d; ++i) {
        const double old = lambda[i], pull = rate * mass * old * old, share = pull < 1 ? pull : 1;
        for (std::size_t j = 0; j < d; ++j)
            mean[j] = T(double(mean[j]) + share * (first[i] / mass) * (double(rows[i * m.stride + j]) / old));
    }
    for (std::size_t i = 0; i < d; ++i) {
        const double old = lambda[i];
        double size = 0, *turn = turns + i * d;
        for (std::size_t j = 0; j < d; ++j) size += turn[j] * turn[j];
        const double length = rate * __builtin_sqrt(size);
        const double gain = length > 0.5 ? 0.5 / __builtin_sqrt(size) : rate; // at most half a unit
        for (std::size_t j = 0; j < d; ++j)
            rows[i * m.stride + j] = T(double(rows[i * m.stride + j]) / old + (size < 1e280 ? gain * turn[j] : 0));
        double low = old * 0.5, high = old * 2, moved = old + rate * (mass / old - old * second[i]);
        low = low > step.scale_min ? low : step.scale_min;
        high = high < step.scale_max ? high : step.scale_max;
        moved = moved > low ? moved : low;
        lambda[i] = moved < high ? moved : high;
    }
    orthogonalise(m, k, lambda);
    refresh(m, k);
}

// Steps over consecutive rows of x, all with the same smoothing and rate.  INOUT m; IN x; OUT report.
template <class T>
void sgd_steps_full(Full<T> full, Input<T> x, std::size_t steps, Filter g, SgdStep step, Batch<T> b, Report report) {
    FullKind<T> m = {full};
    m.lower = false;
    for (std::size_t t = 0; t < steps; ++t) {
        softmax(m.logits, m.components, b.weights, b.log_weights);
        take_batch(x, t * b.size, m, b);
        score_best(m, g, step.scan_all, false, b, report);
        weigh(m, x, g, false, t, b, report);
        double whole = 0;
        for (std::size_t n = 0; n < b.size; ++n) whole += b.shares[n] / double(b.size);
        for (std::size_t k = 0; k < m.components; ++k) {
            if (b.received[k] >= negligible<T>) climb(m, k, b, step);
            m.logits[k] += step.rate * (b.received[k] / double(b.size) - whole * b.weights[k]);
        }
    }
}

} // namespace
