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

// How far a step may go.
template <class T> struct SgdLimits {
    T share, scale_min, scale_max; // the largest share of the way to the sample: one
};

// Moves a pack of features by a sample: [E7] means, [E8] scales.  IN x, INOUT m, s.
template <class T> inline void sgd_pack(const Pack<T> &x, T rate, const SgdLimits<T> &limits, Pack<T> &m, Pack<T> &s) {
    using V = typename Lanes<T>::vector;
    const Pack<T> inverse = reciprocal(s);
    UNROLLED_FOR (std::size_t i = 0; i < pack_vectors; ++i) {
        const V away = x.v[i] - m.v[i], pulled = s.v[i] * away, most = V{} + limits.share;
        V share = rate * s.v[i] * s.v[i];
        share = share < most ? share : most;
        m.v[i] += share * away;
        s.v[i] = stepped<V, T>(s.v[i], rate * (inverse.v[i] - pulled * away), limits.scale_min, limits.scale_max);
    }
}

// Moves every component that receives weight by one sample.  INOUT m, scratch.
template <class T> inline void sgd_one(Model<T> &m, const SgdStep &step, Scratch<T> &scratch) {
    volatile const T one = 1; // compared with a constant, numbers would take GCC two operations in place of a minimum
    const SgdLimits<T> limits = {one, T(step.scale_min), T(step.scale_max)};
    LogProducts<T> log_dets;
    for (std::size_t j = 0; j < m.components; ++j) {
        if (scratch.received[j] < negligible<T>) continue;
        const T rate = T(step.rate * scratch.received[j]);
        T *means = m.means + j * m.stride, *scales = m.scales + j * m.stride;
        if (scratch.gaps) remember(scratch, means, scales, m.stride);
        LogProduct<T> product(limits.scale_min, limits.scale_max);
        scratch.scores[j] = move_row(scratch.ahead ? scratch.next : nullptr, m.stride, [&](std::size_t d) {
            Moved<T> row = {load(means + d), load(scales + d)};
            sgd_pack(load(scratch.samples + d), rate, limits, row.means, row.scales);
            if (d + pack_lanes<T> > m.features) row.scales = pad(row.scales, m.features - d, T(1));
            store(means + d, row.means);
            store(scales + d, row.scales);
            product.multiply(row.scales);
            return row;
        });
        if (scratch.gaps) {
            take_back(scratch, means, scales, m.stride);
            m.log_dets[j] = log_det(scales, m.stride);
        } else {
            log_dets.add(product, m.log_dets + j);
        }
    }
    log_dets.finish();
    compare_others(m, scratch);
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
            assign_one(m, x, g, scratch, t, steps, report);
            sgd_one(m, step, scratch);
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
