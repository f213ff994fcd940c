// The first half of every step: takes samples, finds winners and their scores. Each rule then updates its own way.
#pragma once
#include <utility>

#include "../shared/influence.h"
#include "../shared/rates.h"
#include "../shared/rows.h"
#include "../shared/winner.h"
#include "batch_abandoning.h"
#include "looking_ahead.h"

namespace {

// Copies the samples of a step, from row `first` on: padded, with zeros in place of gaps.  IN x, INOUT scratch.
template <class T> inline void take_rows(const Input<T> &x, std::size_t first, const Model<T> &m, Scratch<T> &scratch) {
    scratch.gaps = false;
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        T *sample = scratch.samples + n * m.stride;
        take_row(x, first + n, m.features, m.stride, sample);
        scratch.shares[n] = x.shares ? x.shares[first + n] : 1.0;
        if (x.gaps) scratch.gaps |= find_gaps(sample, scratch.present + n * m.stride, m.stride);
    }
}

// Takes the sample of a step of one sample, and the next one if the step looks ahead: it does where the filter makes it
// move many components, and the next step is below `end`. Returns whether these have been compared with the sample
// already.  IN x, m, g; INOUT scratch.
template <class T>
inline bool take_one(const Input<T> &x, std::size_t step, std::size_t end, const Model<T> &m, const Filter &g,
                     Scratch<T> &scratch) {
    const bool compared = scratch.ahead;
    if (compared) {
        std::swap(scratch.samples, scratch.next);
        scratch.shares[0] = x.shares ? x.shares[step] : 1.0;
    } else {
        take_rows(x, step, m, scratch);
    }
    scratch.ahead = !g.identity && !x.gaps && step + 1 < end;
    if (scratch.ahead) take_row(x, step + 1, m.features, m.stride, scratch.next);
    return compared;
}

// Saves two rows of a component before a step. `take_back` restores the features that the sample lacks: its likelihood
// does not depend on them.  IN a, b [stride]; OUT scratch.before.
template <class T> inline void remember(const Scratch<T> &scratch, const T *a, const T *b, std::size_t stride) {
    std::memcpy(scratch.before, a, stride * sizeof(T));
    std::memcpy(scratch.before + stride, b, stride * sizeof(T));
}

// INOUT a, b [stride]; IN scratch.present, scratch.before.
template <class T> inline void take_back(const Scratch<T> &scratch, T *a, T *b, std::size_t stride) {
    for (std::size_t d = 0; d < stride; ++d) {
        const bool known = scratch.present[d] != T(0);
        a[d] = known ? a[d] : scratch.before[d];
        b[d] = known ? b[d] : scratch.before[stride + d];
    }
}

// Weight of a step: the mean share of its samples.
template <class T> inline double counted(const Scratch<T> &scratch) {
    double total = 0;
    for (std::size_t n = 0; n < scratch.batch; ++n) total += scratch.shares[n];
    return total / double(scratch.batch);
}

// [E20] Weight of sample n in a step, given its winner; bounds the loss.  IN m, x, g, scratch; INOUT win, report.
template <class T>
inline double influence_of(const Model<T> &m, const Input<T> &x, const Filter &g, const Scratch<T> &scratch,
                           std::size_t n, Win &win, const Report &report) {
    return influence(report.typical_loss, m.features, &win.loss, &win.max_component, [&] {
        const std::size_t row = n * m.stride;
        const SampleAndMeans<T> with = {scratch.samples + row, scratch.gaps ? scratch.present + row : nullptr, m.means,
                                        m.features, m.stride};
        return cost_of_hardly_known(x.frame, g, win.component, with, [&](std::size_t k, std::size_t d) {
            const double scale = double(m.scales[k * m.stride + d]);
            return scale * scale;
        });
    });
}

// A step of one sample: stores the weight of every component in scratch.received; returns the winner. Needs the
// softmax. IN m, x, g; INOUT scratch, report.
template <class T>
inline std::size_t assign_one(const Model<T> &m, const Input<T> &x, const Filter &g, Scratch<T> &scratch,
                              std::size_t step, std::size_t end, const Report &report) {
    const bool compared = take_one(x, step, end, m, g, scratch);
    const bool scouted = scratch.scout.active && !scratch.gaps;
    Win win;
    if (scratch.gaps) {
        *report.terms_read += std::int64_t(m.components * m.stride);
        score_known(m, scratch.samples, scratch.present, scratch.log_weights, scratch.scores);
        win = pick(g, scratch.scores, scratch.pair);
    } else if (scratch.scout.active) {
        const std::size_t before = scratch.scout.spent;
        win.component = find_best(m, scratch.samples, scratch.log_weights, scratch, &win.loss);
        win.max_component = win.loss;
        *report.terms_read += std::int64_t(scratch.scout.spent - before);
    } else {
        *report.terms_read += std::int64_t(m.components * m.stride);
        score_one(m, scratch.samples, scratch.log_weights, scratch.scores, compared);
        win = pick(g, scratch.scores, scratch.pair);
    }
    const double best = win.max_component; // before it is bounded
    const double *exact = scouted ? scratch.exact : scratch.scores;
    const double counts = influence_of(m, x, g, scratch, 0, win, report);
    sum_row(x, step, m.features, step, counts, scratch.raw);
    const double share = scratch.shares[0] *= counts;
    if (scratch.soft && g.identity) share_by_scores<T>(exact, m.components, best, share, scratch.received);
    for (std::size_t j = 0; j < m.components && !(scratch.soft && g.identity); ++j)
        scratch.received[j] = share * (g.identity ? double(j == win.component) : filter_weight(g, win.component, j));
    add_received(scratch.received, m.components, report);
    report.losses[step] = win.loss;
    report.max_components[step] = win.max_component;
    ++report.wins[win.component];
    return win.component;
}

// A step of a batch: stores the winner of each sample, and the total weight of every component in scratch.received.
// Needs the softmax.  IN m, x, g; INOUT scratch, report.
template <class T>
inline void assign_many(const Model<T> &m, const Input<T> &x, const Filter &g, Scratch<T> &scratch, std::size_t step,
                        const Report &report) {
    const std::size_t batch = scratch.batch;
    take_rows(x, step * batch, m, scratch);
    if (scratch.scout.active && !scratch.gaps) {
        const std::size_t before = scratch.scout.spent;
        score_best(m, scratch);
        *report.terms_read += std::int64_t(scratch.scout.spent - before);
    } else {
        *report.terms_read += std::int64_t(batch * m.components * m.stride);
        score_batch(m, scratch);
    }
    double loss = 0, max_component = 0;
    for (std::size_t k = 0; k < m.components; ++k) scratch.received[k] = 0;
    clear_marks(scratch, m.components);
    for (std::size_t n = 0; n < batch; ++n) {
        double *scores = scratch.scores + n * m.components;
        Win win = pick(g, scores, scratch.pair);
        const double best = win.max_component;
        const double counts = influence_of(m, x, g, scratch, n, win, report);
        sum_row(x, step * batch + n, m.features, step, counts, scratch.raw);
        scratch.shares[n] *= counts;
        scratch.winners[n] = win.component;
        if (scratch.soft && g.identity) {
            share_by_scores<T>(scores, m.components, best, scratch.shares[n], scores);
            mark(scratch, m.components, n, [&](std::size_t k) { return scores[k] > 0; });
            for (std::size_t k = 0; k < m.components; ++k) scratch.received[k] += scores[k];
        } else {
            scratch.received[win.component] += scratch.shares[n];
        }
        loss += win.loss;
        max_component += win.max_component;
        ++report.wins[win.component];
    }
    if (g.identity && !scratch.soft) mark_winners(scratch, m.components);
    if (!g.identity) smooth(g, scratch.received, 1, scratch.pair, scratch.received);
    add_received(scratch.received, m.components, report);
    report.losses[step] = loss / double(batch);
    report.max_components[step] = max_component / double(batch);
}

// Adds sample n, features [start, stop), to sums with a weight.  IN scratch, m; INOUT sums.
template <class T>
inline void add_sample(const Scratch<T> &scratch, const Model<T> &m, std::size_t n, double share, std::size_t start,
                       std::size_t stop, const Sums &sums) {
    const double *centre = sums.centre;
    double *first = sums.first, *second = sums.second, *zeroth = sums.zeroth;
    const T *x = scratch.samples + n * m.stride + start, *present = scratch.present + n * m.stride + start;
    auto add = [&](std::size_t i, double counts) {
        const double away = double(x[i]) - centre[i], square = away * away;
        first[i] += counts * away;
        second[i] += counts * (square < 1e300 ? square : 1e300);
    };
    if (!scratch.gaps) {
        for (std::size_t i = 0; i < stop - start; ++i) add(i, share);
        return;
    }
    for (std::size_t i = 0; i < stop - start; ++i) {
        add(i, share * double(present[i]));
        zeroth[i] += share * double(present[i]);
    }
}

// [E10] Weighted sums of (x - c) and (x - c)^2 for every component over features [start, stop): summed for winners
// only, then smoothed, because annealing is a linear map of the statistics. With gaps, weights differ between features
// and are summed as well.
// OUT centre[stop - start], OUT scratch.sums: two or three arrays of [components, scratch.sum_features].
template <class T>
inline void batch_sums(const Model<T> &m, const Filter &g, Scratch<T> &scratch, std::size_t start, std::size_t stop,
                       double *centre) {
    const std::size_t width = scratch.sum_features, size = m.components * width;
    double *first = scratch.sums, *second = first + size, *zeroth = second + size, *half = zeroth + size;
    for (std::size_t i = 0; i < (scratch.gaps ? 3 : 2) * size; ++i) first[i] = 0;
    for (std::size_t d = start; d < stop; ++d) centre[d - start] = 0;
    for (std::size_t k = 0; k < m.components; ++k)
        for (std::size_t d = start; d < stop; ++d)
            centre[d - start] += scratch.weights[k] * double(m.means[k * m.stride + d]);
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        const std::size_t row = scratch.winners[n] * width;
        add_sample(scratch, m, n, scratch.shares[n], start, stop, {centre, first + row, second + row, zeroth + row});
    }
    smooth(g, first, width, half, first);
    smooth(g, second, width, half, second);
    if (scratch.gaps) smooth(g, zeroth, width, half, zeroth);
}

// The same without smoothing, for one component: sums over samples `some` with these shares, about its own mean.
// They stay in registers, because a component has few samples.  IN m, scratch; OUT sums [stop - start].
template <class T>
inline void own_sums(const Model<T> &m, const Scratch<T> &scratch, std::size_t k, std::size_t start, std::size_t stop,
                     const Sums &sums) {
    using V = Lanes<double>::vector;
    constexpr std::size_t lanes = vector_lanes<double>, whole = pack_lanes<T> / lanes, together = whole < 4 ? whole : 4;
    std::size_t number = 0;
    for_marked(scratch, m.components, k, [&](std::size_t n) { scratch.some[number++] = std::uint32_t(n); });
    auto share = [&](std::size_t n) { return scratch.soft ? scratch.scores[n * m.components + k] : scratch.shares[n]; };
    const T *means = m.means + k * m.stride + start;
    if (scratch.gaps) {
        for (std::size_t i = 0; i < stop - start; ++i) {
            sums.centre[i] = double(means[i]);
            sums.first[i] = sums.second[i] = sums.zeroth[i] = 0;
        }
        for (std::size_t i = 0; i < number; ++i)
            add_sample(scratch, m, scratch.some[i], share(scratch.some[i]), start, stop, sums);
        return;
    }
    for (std::size_t d = 0; d < stop - start; d += together * lanes) { // up to the end of a pack: padding is zero
        V centre[together], first[together] = {}, second[together] = {};
        const V most = V{} + 1e300;
        UNROLLED_FOR (std::size_t j = 0; j < together; ++j) centre[j] = load_doubles(means + d + j * lanes);
        for (std::size_t i = 0; i < number; ++i) {
            const std::size_t n = scratch.some[i];
            const double counts = share(n);
            const T *x = scratch.samples + n * m.stride + start + d;
            UNROLLED_FOR (std::size_t j = 0; j < together; ++j) {
                const V away = load_doubles(x + j * lanes) - centre[j], square = away * away;
                first[j] += counts * away;
                second[j] += counts * (square < most ? square : most);
            }
        }
        UNROLLED_FOR (std::size_t j = 0; j < together; ++j) {
            store_vector(sums.centre + d + j * lanes, centre[j]);
            store_vector(sums.first + d + j * lanes, first[j]);
            store_vector(sums.second + d + j * lanes, second[j]);
        }
    }
}

// Calls `update(k, start, stop, sums)` for blocks of features of every component that receives weight from a batch.
// Without gaps every feature receives the weight of its component, and `sums.zeroth` is null.
template <class T, class Update>
inline void with_sums(const Model<T> &m, const Filter &g, Scratch<T> &scratch, Update update) {
    double centre[block_features];
    // sums of one component at a time need no room for the others: longer blocks, and fewer searches for its samples
    const std::size_t width = g.identity ? block_features : scratch.sum_features;
    const std::size_t apart = g.identity ? width : m.components * width;
    for (std::size_t start = 0; start < m.features; start += width) {
        const std::size_t stop = m.features - start < width ? m.features : start + width;
        if (!g.identity) batch_sums(m, g, scratch, start, stop, centre);
        for (std::size_t k = 0; k < m.components; ++k) {
            if (scratch.received[k] < negligible<T>) continue;
            double *first = scratch.sums + (g.identity ? 0 : k * width), *second = first + apart;
            double *zeroth = second + apart;
            if (g.identity) own_sums(m, scratch, k, start, stop, {centre, first, second, zeroth});
            update(k, start, stop, Sums{centre, first, second, scratch.gaps ? zeroth : nullptr});
        }
    }
}

} // namespace
