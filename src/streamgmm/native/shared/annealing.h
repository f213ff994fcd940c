// What the control of a training keeps of losses: [E11] smoothed over time, on which annealing decides, and [E22]
// summed over a period, which tells of drift.
#pragma once
#include <cstddef>

namespace streamgmm {

struct LossSmoothing {
    double batch_size, period;
    double opening;  // samples after which the baseline is set
    bool robust;     // a plain mean until one period is full
    double farthest; // bound of one deviation: its square must stay finite
};

// INOUT state[5]: samples, loss, max_component, variance, baseline, NaN while unknown; IN losses, tops [steps].
inline void smooth_losses(double *state, const double *losses, const double *tops, std::size_t steps,
                          const LossSmoothing &s) {
    double samples = state[0], loss = state[1], top = state[2], variance = state[3], baseline = state[4];
    for (std::size_t t = 0; t < steps; ++t) {
        samples += s.batch_size;
        const double horizon = s.robust && samples < s.period ? samples : s.period;
        const double rate = s.batch_size < horizon ? s.batch_size / horizon : 1.0;
        if (loss == loss) {
            double away = losses[t] - loss;
            away = away < -s.farthest ? -s.farthest : away > s.farthest ? s.farthest : away;
            variance = (1 - rate) * variance + rate * s.batch_size * (away * away);
        }
        loss = loss == loss ? (1 - rate) * loss + rate * losses[t] : losses[t];
        top = top == top ? (1 - rate) * top + rate * tops[t] : tops[t];
        if (baseline != baseline && samples >= s.opening) baseline = loss;
    }
    state[0] = samples, state[1] = loss, state[2] = top, state[3] = variance, state[4] = baseline;
}

// INOUT state[4]: a floor (NaN while nothing is summed), number of losses, and sums of their distances above the floor
// and of the squares of these; IN losses[steps]. One after the other, so that chunks leave no trace in the rounding.
inline void sum_above(double *state, const double *losses, std::size_t steps) {
    if (state[0] != state[0]) return;
    for (std::size_t t = 0; t < steps; ++t) {
        const double away = losses[t] - state[0], above = away < 0 ? 0 : away;
        state[1] += 1, state[2] += above, state[3] += above * above;
    }
}

} // namespace streamgmm
