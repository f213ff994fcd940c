// The natural-gradient rule: running means and variances, with a rate of its own for each component.
#pragma once
#include "moments.h"

namespace {

// What a sample moves.
template <class T> struct NaturalRow {
    const T *x, *next;
    T *means, *variances, *scales;
    T r, most;
};

// Moves moments and scales; returns the distance from the next sample.
template <class T, bool prior>
inline double move_all(const NaturalRow<T> &row, std::size_t stride, const Scaling<T, prior> &scaling,
                       LogProduct<T> &product) {
    return move_row(row.next, stride, [&](std::size_t d) {
        Pack<T> m = load(row.means + d), v = load(row.variances + d);
        move_pack(load(row.x + d), row.r, row.most, m, v);
        store(row.means + d, m);
        store(row.variances + d, v);
        const Pack<T> s = scaling(v, d);
        store(row.scales + d, s);
        product.multiply(s);
        return Moved<T>{m, s};
    });
}

template <class T>
inline void natural_one(Model<T> &m, Moments<T> &moments, const NaturalStep &step, Scratch<T> &scratch) {
    const T scale_min = T(step.scale_min), scale_max = T(step.scale_max), most = T(most_variance(step.scale_min));
    LogProducts<T> log_dets;
    for (std::size_t j = 0; j < m.components; ++j) {
        const double w = scratch.received[j];
        if (w < negligible<T>) continue;
        const T r = T(earned_rate(moments.masses + j, w, step));
        T *means = m.means + j * m.stride, *variances = moments.variances + j * m.stride;
        T *scales = m.scales + j * m.stride;
        if (moments.evidence) moments.evidence[j] += w;
        if (step.hold_scales && !moments.evidence) {
            if (scratch.gaps) remember(scratch, means, means, m.stride);
            move_means(scratch.samples, means, m.stride, r);
            if (scratch.gaps) take_back(scratch, means, means, m.stride);
            continue;
        }
        const Blend<T> with = blend(moments, j);
        if (!scratch.ahead) { // also with gaps, and where few components move
            move_known(scratch, means, variances, m.stride, r, most);
            if (!step.hold_scales) m.log_dets[j] = scales_of(variances, scales, m, scale_min, scale_max, with);
            continue;
        }
        const NaturalRow<T> row = {scratch.samples, scratch.next, means, variances, scales, r, most};
        LogProduct<T> product(scale_min, scale_max);
        scratch.scores[j] = with.prior
                                ? move_all(row, m.stride, Scaling<T, true>(m, scale_min, scale_max, with), product)
                                : move_all(row, m.stride, Scaling<T, false>(m, scale_min, scale_max, with), product);
        log_dets.add(product, m.log_dets + j);
    }
    log_dets.finish();
    compare_others(m, scratch);
}

template <class T>
inline void natural_batch(Model<T> &m, Moments<T> &moments, const Filter &g, const NaturalStep &step,
                          Scratch<T> &scratch) {
    double *rates = scratch.pair; // free once winners are known
    const bool learns_variances = !step.hold_scales || moments.evidence;
    for (std::size_t k = 0; k < m.components; ++k) {
        rates[k] = scratch.received[k] < negligible<T> ? 0 : earned_rate(moments.masses + k, scratch.received[k], step);
        if (moments.evidence) moments.evidence[k] += scratch.received[k];
    }
    with_sums(m, g, scratch, [&](std::size_t k, std::size_t start, std::size_t stop, const Sums &sums) {
        const double *centre = sums.centre, *first = sums.first, *second = sums.second, *zeroth = sums.zeroth;
        const double mass = scratch.received[k], most = most_variance(step.scale_min);
        T *mean = m.means + k * m.stride + start, *variance = moments.variances + k * m.stride + start;
        T unused[block_features]; // takes the variances if scales are held
        T *varies = learns_variances ? variance : unused;
        for (std::size_t i = 0; !learns_variances && i < stop - start; ++i) unused[i] = variance[i];
        const bool plain = !zeroth && g.identity; // sums are about the mean already
        for (std::size_t i = 0; plain && i < stop - start; ++i)
            move_by_sums(first[i], second[i], mass, rates[k], most, mean + i, varies + i);
        for (std::size_t i = 0; !plain && !zeroth && i < stop - start; ++i) {
            const double c = double(mean[i]) - centre[i];
            move_by_sums(first[i] - mass * c, second[i] - 2 * c * first[i] + mass * c * c, mass, rates[k], most,
                         mean + i, varies + i);
        }
        for (std::size_t i = 0; zeroth && i < stop - start; ++i) {
            const double c = double(mean[i]) - centre[i], known = zeroth[i];
            const double square = second[i] - 2 * c * first[i] + known * c * c;
            // samples without the feature count as samples with the present mean and variance
            move_by_sums(first[i] - known * c, square + (mass - known) * double(variance[i]), mass, rates[k], most,
                         mean + i, varies + i);
        }
    });
    for (std::size_t k = 0; k < m.components && !step.hold_scales; ++k)
        if (scratch.received[k] >= negligible<T>)
            m.log_dets[k] = scales_of(moments.variances + k * m.stride, m.scales + k * m.stride, m, T(step.scale_min),
                                      T(step.scale_max), blend(moments, k));
}

// Steps over consecutive rows of x. The rule updates the weights of components at its checks, not here.
// INOUT m, moments; IN x[steps * batch, features]; OUT report.
template <class T>
void natural_steps(Model<T> m, Moments<T> moments, Input<T> x, std::size_t steps, Filter g, NaturalStep step,
                   Scratch<T> scratch, Report report) {
    prepare(m, x, scratch);
    softmax(m.logits, m.components, scratch.weights, scratch.log_weights);
    const std::size_t end = step.hold_scales ? 0 : steps; // to look ahead pays where a step computes more than it reads
    for (std::size_t t = 0; t < steps; ++t) {
        if (scratch.batch == 1) {
            assign_one(m, x, g, scratch, t, end, report);
            natural_one(m, moments, step, scratch);
        } else {
            assign_many(m, x, g, scratch, t, report);
            natural_batch(m, moments, g, step, scratch);
        }
        follow_moved(m, scratch);
    }
}

} // namespace
