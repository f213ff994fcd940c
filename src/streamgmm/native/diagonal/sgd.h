// Stochastic gradient ascent on the smoothed max-component log-likelihood.
#pragma once
#include "assignment.h"

namespace {

// [E8] Scales after a gradient step, within a factor of 2 of the old ones and within their bounds. A NaN step gives
// the lowest.
template <class V, class T> inline V stepped(V old, V step, T scale_min, T scale_max) {
    V low = old * T(0.5), high = old * T(2), moved = old + step;
    const V lowest = V{} + scale_min, highest = V{} + scale_max;
    low = low > lowest ? low : lowest;
    high = high < highest ? high : highest;
    moved = moved > low ? moved : low;
    return moved < high ? moved : high;
}

// Moves one component by one sample: [E7] means, [E8] scales; returns the new log-determinant.
// IN x, INOUT means, scales.
template <class T>
inline double sgd_row(const T *x, T *means, T *scales, std::size_t features, std::size_t stride, T rate, T scale_min,
                      T scale_max) {
    LogProduct<T> product;
    for (std::size_t d = 0; d < stride; d += pack_lanes<T>) {
        const Pack<T> xs = load(x + d), s = load(scales + d), inverse = reciprocal(s);
        Pack<T> m = load(means + d), moved;
        UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
            using V = typename Lanes<T>::vector;
            const V away = xs.v[i] - m.v[i], pulled = s.v[i] * away, one = V{} + T(1);
            V share = rate * s.v[i] * s.v[i];
            share = share < one ? share : one;
            m.v[i] += share * away;
            moved.v[i] = stepped<V, T>(s.v[i], rate * (inverse.v[i] - pulled * away), scale_min, scale_max);
        }
        if (d + pack_lanes<T> > features) moved = pad(moved, features - d, T(1));
        store(means + d, m);
        store(scales + d, moved);
        product.multiply(moved);
    }
    return product.log();
}

// The same for a block of features of a batch, from sums about `centre`.
// IN sums; INOUT means, scales.
template <class T>
inline void sgd_block(const Sums &sums, std::size_t count, double of_all, double rate, const SgdStep &step, T *means,
                      T *scales) {
    const double *centre = sums.centre, *first = sums.first, *second = sums.second, *zeroth = sums.zeroth;
    auto move = [&](std::size_t i, double received) {
        const double m = double(means[i]) - centre[i], s = double(scales[i]);
        const double away = first[i] - received * m;
        const double square = second[i] - 2 * m * first[i] + received * m * m;
        double share = rate * received * s * s;
        share = share < 1 ? share : 1;
        means[i] = T(double(means[i]) + share * (away / received));
        double low = s * 0.5, high = s * 2, moved = s + rate * (received / s - s * square);
        low = low > step.scale_min ? low : step.scale_min;
        high = high < step.scale_max ? high : step.scale_max;
        moved = moved > low ? moved : low;
        scales[i] = T(moved < high ? moved : high);
    };
    for (std::size_t i = 0; !zeroth && i < count; ++i) move(i, of_all); // a loop of its own: it has no branch
    for (std::size_t i = 0; zeroth && i < count; ++i)
        if (zeroth[i] >= negligible<T>) move(i, zeroth[i]);
}

template <class T> inline void sgd_batch(Model<T> &m, const Filter &g, const SgdStep &step, Scratch<T> &scratch) {
    const double rate = step.rate / double(scratch.batch);
    with_sums(m, g, scratch, [&](std::size_t k, std::size_t start, std::size_t stop, const Sums &sums) {
        const std::size_t at = k * m.stride + start;
        sgd_block(sums, stop - start, scratch.received[k], rate, step, m.means + at, m.scales + at);
    });
    for (std::size_t k = 0; k < m.components; ++k)
        if (scratch.received[k] >= negligible<T>) m.log_dets[k] = log_det(m.scales + k * m.stride, m.stride);
}

// Steps over consecutive rows of x, all with the same smoothing and rate.
// INOUT m; IN x[steps * batch, features]; OUT report.
template <class T>
void sgd_steps(Model<T> m, Input<T> x, std::size_t steps, Filter g, SgdStep step, Scratch<T> scratch, Report report) {
    prepare(m, x, scratch);
    for (std::size_t t = 0; t < steps; ++t) {
        softmax(m.logits, m.components, scratch.weights, scratch.log_weights);
        if (scratch.batch == 1) {
            assign_one(m, x, g, scratch, t, report);
            for (std::size_t j = 0; j < m.components; ++j) {
                if (scratch.received[j] < negligible<T>) continue;
                T *means = m.means + j * m.stride, *scales = m.scales + j * m.stride;
                if (scratch.gaps) remember(scratch, means, scales, m.stride);
                m.log_dets[j] = sgd_row(scratch.samples, means, scales, m.features, m.stride,
                                        T(step.rate * scratch.received[j]), T(step.scale_min), T(step.scale_max));
                if (!scratch.gaps) continue;
                take_back(scratch, means, scales, m.stride);
                m.log_dets[j] = log_det(scales, m.stride);
            }
        } else {
            assign_many(m, x, g, scratch, t, report);
            sgd_batch(m, g, step, scratch);
        }
        follow_moved(m, scratch);
        // [E9] Logits, from the fraction of the batch that each component received.
        const double whole = counted(scratch);
        for (std::size_t k = 0; k < m.components; ++k)
            m.logits[k] += step.rate * (scratch.received[k] / double(scratch.batch) - whole * scratch.weights[k]);
    }
}

} // namespace
