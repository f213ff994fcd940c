// Stochastic expectation-maximisation: responsibilities share out every sample; there is no grid.
#pragma once
#include "moments.h"

namespace {

// Turns the scores of a step into responsibilities, reports the likelihood and sums the mass of each component.
// IN m, x; INOUT scratch, report.
template <class T>
inline void share_out(const Model<T> &m, const Input<T> &x, Scratch<T> &scratch, std::size_t step,
                      const Report &report) {
    double loss = 0, top = 0;
    for (std::size_t k = 0; k < m.components; ++k) scratch.received[k] = 0;
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        double *row = scratch.scores + n * m.components, total;
        Win win = {argmax(row, m.components), 0, 0};
        win.max_component = row[win.component];
        win.loss = exponentials(row, m.components, scratch.weights, &total);
        ++report.wins[win.component];
        const double counts = influence_of(m, x, no_filter, scratch, n, win, report);
        sum_row(x, step * scratch.batch + n, m.features, step, counts, scratch.raw);
        const double share = scratch.shares[n] *= counts;
        top += win.max_component;
        loss += win.loss;
        for (std::size_t k = 0; k < m.components; ++k)
            scratch.received[k] += row[k] = share * (scratch.weights[k] / total);
    }
    add_received(scratch.received, m.components, report);
    report.losses[step] = loss / double(scratch.batch);
    report.max_components[step] = top / double(scratch.batch);
}

// Moves one component by all samples that it is responsible for.  INOUT moments; IN scratch.
template <class T>
inline void em_row(const Model<T> &m, Moments<T> &moments, std::size_t k, double r, double most, Scratch<T> &scratch) {
    T *means = moments.means + k * m.stride, *variances = moments.variances + k * m.stride;
    if (scratch.batch == 1) return move_known(scratch, means, variances, m.stride, T(r), T(most));
    double *shift = scratch.sums, *square = shift + block_features;
    const double mass = scratch.received[k];
    for (std::size_t start = 0; start < m.features; start += block_features) {
        const std::size_t count = m.features - start < block_features ? m.features - start : block_features;
        for (std::size_t i = 0; i < 2 * block_features; ++i) shift[i] = 0;
        for (std::size_t n = 0; n < scratch.batch; ++n) {
            const double w = scratch.scores[n * m.components + k];
            if (w < negligible<T>) continue;
            const T *x = scratch.samples + n * m.stride + start, *present = scratch.present + n * m.stride + start;
            const bool gaps = scratch.gaps;
            for (std::size_t i = 0; i < count; ++i) {
                const double away = double(x[i]) - double(means[start + i]);
                const bool known = !gaps || present[i] != T(0);
                shift[i] += known ? w * away : 0;
                square[i] += w * (known ? away * away : double(variances[start + i]));
            }
        }
        for (std::size_t i = 0; i < count; ++i)
            move_by_sums(shift[i], square[i], mass, r, most, means + start + i, variances + start + i);
    }
}

// [E16] [E17] Steps over consecutive rows of x. Masses are running means of responsibilities, so they neither overflow
// nor vanish. While accumulating, moments learn and the model stays as it is.
// INOUT m, moments; IN x[steps * batch, features]; OUT report.
template <class T>
void em_steps(Model<T> m, Moments<T> moments, Input<T> x, std::size_t steps, EmStep step, Scratch<T> scratch,
              Report report) {
    for (std::size_t t = 0; t < steps; ++t) {
        take_rows(x, t * scratch.batch, m, scratch);
        softmax(m.logits, m.components, scratch.weights, scratch.log_weights);
        if (scratch.batch == 1 && scratch.gaps) {
            score_known(m, scratch.samples, scratch.present, scratch.log_weights, scratch.scores);
        } else if (scratch.batch == 1) {
            score_one(m, scratch.samples, scratch.log_weights, scratch.scores);
        } else {
            score_batch(m, scratch);
        }
        share_out(m, x, scratch, t, report);
        const double rho = em_rate(step, step.first_step + t), whole = counted(scratch);
        for (std::size_t k = 0; k < m.components; ++k) {
            const double gained = rho * scratch.received[k] / double(scratch.batch);
            const double mass = (1 - rho * whole) * moments.masses[k] + gained;
            moments.masses[k] = mass > 1e-300 ? mass : 1e-300;
            if (!step.accumulate) m.logits[k] = __builtin_log(moments.masses[k]);
            if (moments.evidence) moments.evidence[k] += scratch.received[k];
            if (scratch.received[k] < negligible<T>) continue;
            em_row(m, moments, k, gained < mass ? gained / mass : 1.0, most_variance(step.scale_min), scratch);
            if (!step.accumulate)
                m.log_dets[k] = scales_of(moments.variances + k * m.stride, m.scales + k * m.stride, m,
                                          T(step.scale_min), T(step.scale_max), blend(moments, k));
        }
    }
}

} // namespace
