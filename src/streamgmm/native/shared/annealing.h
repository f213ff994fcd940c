// [E11] Smoothing of losses over time, on which annealing decides.
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

} // namespace streamgmm
