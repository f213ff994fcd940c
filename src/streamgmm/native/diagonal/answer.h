// [E28] The model that answers: variances as far as they are known, in the units of the rows.
#pragma once
#include <cmath>
#include <vector>

#include "../dispatch.h"
#include "../shared/aligned.h"
#include "arrays.h"

namespace streamgmm {

struct AnswerStep {
    double growth, pooled, fewest; // growth of counts; samples from which own variances tell more; smallest count
    double scale_min, scale_max;
};

// Means and scales of samples as those of rows: a feature that has not varied is its shift, at a density of one.
// IN m, frame[frame_rows, features]; OUT out.
template <class T> void to_units_of_rows(const Model<T> &m, const T *frame, const Model<T> &out) {
    const double still = std::sqrt(6.283185307179586);
    const T *shift = frame, *unit = frame + m.features, *active = unit + m.features;
    for (std::size_t k = 0; k < m.components; ++k)
        for (std::size_t d = 0, i = k * m.stride; d < m.features; ++d, ++i) {
            const double u = double(unit[d]), away = -double(shift[d]) * u, factor = 1 / u;
            const bool varies = active[d] != T(0);
            out.means[i] = varies ? T((double(m.means[i]) - away) * factor) : shift[d];
            out.scales[i] = T(varies ? double(out.scales[i]) / std::abs(factor) : still);
        }
}

// IN m, moments with a prior, frame; OUT out, which has the shape of m.
template <class T>
void answer(const Model<T> &m, Moments<T> moments, const T *frame, const AnswerStep &step, const Model<T> &out) {
    const std::size_t k = m.components;
    const double weight = step.pooled * step.pooled * (1 - step.growth);
    std::vector<T> wider;
    std::vector<double> shares(k), weights(k), together(m.features);
    if (weight > 0) { // means of n samples are uncertain, and variances about them too small
        T *at = aligned(wider, k * m.stride);
        for (std::size_t j = 0; j < k; ++j) {
            const double most = (2 - step.growth) * moments.masses[j];
            const double known = moments.evidence[j] < most ? moments.evidence[j] : most;
            const double n = known > step.fewest ? known : step.fewest, factor = (n + 1) / (n - 1);
            shares[j] = weight / (known * known + weight);
            for (std::size_t i = j * m.stride; i < (j + 1) * m.stride; ++i)
                at[i] = T(double(moments.variances[i]) * factor);
        }
        moments.variances = at;
    }
    table<T>().diagonal.rescale(out, moments, step.scale_min, step.scale_max, 0, k);
    if (weight > 0) { // a few samples tell less about a component than all components together do
        double top = m.logits[0], total = 0;
        for (std::size_t j = 1; j < k; ++j) top = m.logits[j] > top ? m.logits[j] : top;
        for (std::size_t j = 0; j < k; ++j) total += weights[j] = std::exp(m.logits[j] - top);
        for (double &share : weights) share /= total;
        for (std::size_t j = 0; j < k; ++j)
            for (std::size_t d = 0; d < m.features; ++d) {
                const double s = double(out.scales[j * m.stride + d]);
                together[d] += weights[j] / (s * s);
            }
        for (double &variance : together) variance = -0.5 * std::log(variance);
        for (std::size_t j = 0; j < k; ++j)
            for (std::size_t d = 0, i = j * m.stride; d < m.features; ++d, ++i)
                out.scales[i] =
                    T(std::exp((1 - shares[j]) * std::log(double(out.scales[i])) + shares[j] * together[d]));
    }
    to_units_of_rows(m, frame, out);
    for (std::size_t j = 0; j < k; ++j) out.logits[j] = m.logits[j];
    table<T>().diagonal.refresh_log_dets(out, 0, k);
}

} // namespace streamgmm
