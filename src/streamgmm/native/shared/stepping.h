// Steps of covariance kinds that couple features. A kind gives `add_scores`, `feature_precision`, `move` and `settle`;
// what samples weigh, and when covariances are set anew, is the same for all of them.
#pragma once
#include "influence.h"
#include "linear.h"
#include "rates.h"
#include "rows.h"
#include "winner.h"

namespace {

// [E36] Single samples set the covariances of a component anew only when its statistics have moved this far since the
// last time, as a share of what they rest on: a step then costs the square of the number of features, not the cube.
constexpr double lag = 0.05;

// Copies the samples of a step, from row `first` on: padded, with zeros in place of gaps.  IN x, kind; INOUT b.
template <class T> inline void take_batch(const Input<T> &x, std::size_t first, const Coupled<T> &kind, Batch<T> &b) {
    for (std::size_t n = 0; n < b.size; ++n) {
        T *sample = b.samples + n * kind.stride;
        take_row(x, first + n, kind.features, kind.stride, sample);
        b.shares[n] = x.shares ? x.shares[first + n] : 1.0;
        b.has_gaps[n] = x.gaps && find_gaps(sample, b.present + n * kind.stride, kind.stride);
    }
}

// [E2] Scores of all samples under all components.  IN kind; INOUT b.
template <class T, class Kind> inline void score_all(const Kind &kind, Batch<T> &b) {
    for (std::size_t k = 0; k < kind.components; ++k) add_scores(kind, k, b);
}

// [E2] Scores of one sample under those components that come within `reach` of the best; others may get the lowest
// number. Returns how many terms were read.  IN kind; INOUT b.
template <class T, class Kind> inline std::size_t score_near(const Kind &kind, Batch<T> &b, double) {
    score_all(kind, b);
    return kind.components * kind.stride;
}

// What a kind may do before the step that takes row t.
template <class T, class Kind>
inline void look_ahead(Kind &, const Input<T> &, std::size_t, std::size_t, const Report &) {}

// Scores of a step of which only the best count: with early abandoning, where that may be.  IN kind, g; INOUT b.
template <class T, class Kind>
inline void score_best(const Kind &kind, const Filter &g, bool scan_all, bool soft, Batch<T> &b, const Report &report) {
    if (b.size > 1 || b.has_gaps[0] || scan_all || !g.identity) {
        *report.terms_read += b.size == 1 ? std::int64_t(kind.components * kind.stride) : 0;
        return score_all(kind, b);
    }
    *report.terms_read += std::int64_t(score_near(kind, b, soft ? negligible_share<T> : 0));
}

// [E20] Weight of sample n in a step, given its winner; bounds the loss.  IN kind, x, g, b; INOUT win, report.
template <class T, class Kind>
inline double influence_of(const Kind &kind, const Input<T> &x, const Filter &g, const Batch<T> &b, std::size_t n,
                           Win &win, const Report &report) {
    return influence(report.typical_loss, kind.features, &win.loss, &win.max_component, [&] {
        const std::size_t row = n * kind.stride;
        const SampleAndMeans<T> with = {b.samples + row, b.has_gaps[n] ? b.present + row : nullptr, kind.means,
                                        kind.features, kind.stride};
        return cost_of_hardly_known(x.frame, g, win.component, with,
                                    [&](std::size_t k, std::size_t d) { return feature_precision(kind, k, d); });
    });
}

// Winners and the weights that samples give to components, which replace the scores.  IN x, g; INOUT b, report.
template <class T, class Kind>
inline void weigh(const Kind &kind, const Input<T> &x, const Filter &g, bool soft, std::size_t step, Batch<T> &b,
                  const Report &report) {
    double loss = 0, top = 0;
    for (std::size_t k = 0; k < kind.components; ++k) b.received[k] = 0;
    for (std::size_t n = 0; n < b.size; ++n) {
        double *scores = b.scores + n * kind.components;
        Win win = pick(g, scores, b.pair);
        const double best = win.max_component;
        const double counts = influence_of(kind, x, g, b, n, win, report);
        sum_row(x, step * b.size + n, kind.features, step, counts, b.raw);
        const double share = b.shares[n] *= counts;
        if (soft && g.identity)
            share_by_scores<T>(scores, kind.components, best, share, scores);
        else
            for (std::size_t k = 0; k < kind.components; ++k)
                scores[k] = share * (g.identity ? double(k == win.component) : filter_weight(g, win.component, k));
        for (std::size_t k = 0; k < kind.components; ++k) b.received[k] += scores[k];
        loss += win.loss, top += win.max_component;
        ++report.wins[win.component];
    }
    add_received(b.received, kind.components, report);
    report.losses[step] = loss / double(b.size);
    report.max_components[step] = top / double(b.size);
}

// Responsibilities, which replace the scores.  IN x; INOUT b, report.
template <class T, class Kind>
inline void weigh_by_responsibility(const Kind &kind, const Input<T> &x, std::size_t step, Batch<T> &b,
                                    const Report &report) {
    double loss = 0, top = 0;
    for (std::size_t k = 0; k < kind.components; ++k) b.received[k] = 0;
    for (std::size_t n = 0; n < b.size; ++n) {
        double *scores = b.scores + n * kind.components, total;
        Win win = {argmax(scores, kind.components), 0, 0};
        win.max_component = scores[win.component];
        win.loss = exponentials(scores, kind.components, b.weights, &total);
        const double counts = influence_of(kind, x, no_filter, b, n, win, report);
        sum_row(x, step * b.size + n, kind.features, step, counts, b.raw);
        const double share = b.shares[n] *= counts;
        for (std::size_t k = 0; k < kind.components; ++k) b.received[k] += scores[k] = share * (b.weights[k] / total);
        loss += win.loss, top += win.max_component;
        ++report.wins[win.component];
    }
    add_received(b.received, kind.components, report);
    report.losses[step] = loss / double(b.size);
    report.max_components[step] = top / double(b.size);
}

// Sets covariances anew if a batch has moved the statistics, or enough single samples have.  INOUT kind.
template <class T, class Kind>
inline void settle_if_due(Kind &kind, std::size_t k, double rate, const Batch<T> &b, const Limits &limits) {
    kind.pending[k] += T(rate);
    if (b.size == 1 && double(kind.pending[k]) < lag) return;
    kind.pending[k] = T(0);
    settle(kind, k, limits);
}

// [E13] [E36] [E40] Natural-gradient steps over consecutive rows of x.  INOUT kind; IN x; OUT report.
template <class T, class Kind>
void natural_steps_of(Kind kind, Input<T> x, std::size_t steps, Filter g, NaturalStep step, Batch<T> b, Report report) {
    const Limits limits = {1 / (step.scale_max * step.scale_max), most_variance(step.scale_min)};
    softmax(kind.logits, kind.components, b.weights, b.log_weights);
    for (std::size_t t = 0; t < steps; ++t) {
        take_batch(x, t * b.size, kind, b);
        look_ahead(kind, x, t, steps, report);
        score_best(kind, g, step.scan_all, step.soft, b, report);
        weigh(kind, x, g, step.soft, t, b, report);
        for (std::size_t k = 0; k < kind.components; ++k) {
            const double mass = b.received[k];
            if (mass < negligible<T>) continue;
            const double rate = earned_rate(kind.masses + k, mass, step);
            if (kind.evidence) kind.evidence[k] += mass;
            if (g.identity && !step.hold_scales) begin(kind, k, limits);
            move(kind, k, b, rate, step.hold_scales && !kind.evidence, limits);
            if (!step.hold_scales) settle_if_due(kind, k, rate, b, limits);
        }
    }
}

// [E16] [E17] Steps of stochastic EM.  INOUT kind; IN x; OUT report.
template <class T, class Kind>
void em_steps_of(Kind kind, Input<T> x, std::size_t steps, EmStep step, Batch<T> b, Report report) {
    const Limits limits = {1 / (step.scale_max * step.scale_max), most_variance(step.scale_min)};
    for (std::size_t t = 0; t < steps; ++t) {
        take_batch(x, t * b.size, kind, b);
        softmax(kind.logits, kind.components, b.weights, b.log_weights);
        score_all(kind, b);
        weigh_by_responsibility(kind, x, t, b, report);
        double whole = 0;
        for (std::size_t n = 0; n < b.size; ++n) whole += b.shares[n] / double(b.size);
        const double rho = em_rate(step, step.first_step + t);
        for (std::size_t k = 0; k < kind.components; ++k) {
            const double gained = rho * b.received[k] / double(b.size);
            const double mass = (1 - rho * whole) * kind.masses[k] + gained;
            kind.masses[k] = mass > 1e-300 ? mass : 1e-300;
            if (!step.accumulate) kind.logits[k] = __builtin_log(kind.masses[k]);
            if (kind.evidence) kind.evidence[k] += b.received[k];
            if (b.received[k] < negligible<T>) continue;
            const double rate = gained < mass ? gained / mass : 1.0;
            if (!step.accumulate) begin(kind, k, limits);
            move(kind, k, b, rate, false, limits);
            if (!step.accumulate) settle_if_due(kind, k, rate, b, limits);
        }
    }
}

// [E2] [E3] [E4] for each row.  IN kind, x[rows, features]; OUT out.
template <class T, class Kind> void score_rows_of(Kind kind, Input<T> x, std::size_t rows, Batch<T> b, Answers out) {
    softmax(kind.logits, kind.components, b.weights, b.log_weights);
    const std::size_t most = b.size;
    for (std::size_t done = 0; done < rows; done += most) {
        b.size = rows - done < most ? rows - done : most;
        take_batch(x, done, kind, b);
        score_all(kind, b);
        for (std::size_t n = 0; n < b.size; ++n) {
            double *row = b.scores + n * kind.components, total;
            if (out.scores)
                std::memcpy(out.scores + (done + n) * kind.components, row, kind.components * sizeof(double));
            if (out.log_likelihood)
                out.log_likelihood[done + n] = exponentials(row, kind.components, b.weights, &total);
            const std::size_t best = argmax(row, kind.components);
            if (out.max_component) out.max_component[done + n] = row[best];
            if (out.winner) out.winner[done + n] = std::int64_t(best);
        }
    }
}

// [E36] [E41] Sets the covariances of components [first, last) from their statistics.  INOUT kind.
template <class T, class Kind>
void settle_all(Kind kind, double scale_min, double scale_max, std::size_t first, std::size_t last) {
    const Limits limits = {1 / (scale_max * scale_max), most_variance(scale_min)};
    for (std::size_t k = first; k < last; ++k) settle(kind, k, limits);
}

// [E24] What the prior makes of feature d of component k: Σ = root_i S_ij root_j + δ_ij own_i.
template <class T> struct Blended {
    double root, own;
};

template <class T>
inline Blended<T> blended(const Coupled<T> &kind, std::size_t k, std::size_t d, const Limits &limits) {
    if (!kind.prior) return {1, 0};
    constexpr double locked = 1e20; // weight of a feature that has not varied
    const double n = kind.evidence[k], expected = double(kind.prior[d]), full = double(kind.prior[kind.stride + d]);
    const double weight = kind.known_from > 0 && full < locked ? full * kind.known_from / (n + kind.known_from) : full;
    const double added = double(kind.prior[2 * kind.stride + d]), smallest = double(kind.prior[3 * kind.stride + d]);
    const double own = weight * expected / (n + weight) + added;
    const double least = smallest > limits.least ? smallest : limits.least;
    return {__builtin_sqrt(n / (n + weight)), own > least ? own : least};
}

} // namespace
