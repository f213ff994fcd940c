// The first half of every step: samples in, winners and their scores out. What a rule then does with them is its own.
#pragma once
#include "scouting.h"
#include "smoothing.h"

namespace {

// Weights below this change nothing in the arithmetic at hand.
template <class T> constexpr double negligible = 1e-17;
template <> constexpr double negligible<float> = 1e-8;

// Row n of the data as numbers, followed by zeros up to `stride`; asks for the next row on the way.
template <class T>
inline void take_row(const Input<T> &x, std::size_t n, std::size_t features, std::size_t stride, T *to) {
    if (x.numbers) {
        const T *row = x.numbers + n * x.stride;
        for (std::size_t d = 0; d < features && d < 1024; d += 64 / sizeof(T)) __builtin_prefetch(row + x.stride + d);
        std::memcpy(to, row, features * sizeof(T));
    } else {
        const std::uint8_t *row = x.bytes + n * x.stride;
        for (std::size_t d = 0; d < features; ++d) to[d] = T(row[d]) * x.factor;
    }
    for (std::size_t d = features; d < stride; ++d) to[d] = T(0);
}

// Samples of a step, from row `first` on: padded, with zeros for what is missing.
template <class T> inline void take_rows(const Input<T> &x, std::size_t first, const Model<T> &m, Scratch<T> &scratch) {
    scratch.gaps = false;
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        T *sample = scratch.samples + n * m.stride;
        take_row(x, first + n, m.features, m.stride, sample);
        scratch.shares[n] = x.shares ? x.shares[first + n] : 1.0;
        if (x.gaps) scratch.gaps |= find_gaps(sample, scratch.present + n * m.stride, m.stride);
    }
}

constexpr double too_strange = 30;         // deviations below the usual loss from which on a sample counts less
constexpr double slow = 1e-3, fast = 1e-2; // rates at which the usual deviation grows, and all else moves
constexpr double strange_at_first = 1000;  // nats a feature: in the beginning, ten units from a mean at the usual cap

// [E20] how much a sample with such a loss may count; bounds what it reports and learns from it what is usual.
// INOUT usual: samples that were not strange, level, deviation; INOUT loss, top.
inline double influence(double *usual, std::size_t features, double *loss, double *top) {
    if (!usual) return 1;
    if (usual[2] == 0) usual[2] = strange_at_first * double(features) / too_strange;
    const double least = __builtin_sqrt(double(features)); // a Gaussian's own losses differ by about so much
    const double most = too_strange * (usual[2] > least ? usual[2] : least), away = *loss - usual[1];
    if (away < -most) { // so it takes hundreds of them to become usual, however strange they are
        usual[1] -= fast * most;
        usual[2] += slow * (most - usual[2]);
        *loss = usual[1] - most;
        *top = *top > *loss ? *top : *loss;
        return most / away * (most / away);
    }
    const double n = ++usual[0], wide = (away < 0 ? -away : away < most ? away : most) - usual[2];
    const double rate = wide > 0 ? slow : fast, early = 1 / (n + 1);
    usual[1] += (1 / n > fast ? 1 / n : fast) * away;
    usual[2] += (early > rate ? early : rate) * wide;
    return 1;
}

// Remembers two rows of a component before a step, and takes back what the step did to features that the sample does
// not have: without them, the likelihood says nothing about those.
template <class T> inline void remember(const Scratch<T> &scratch, const T *a, const T *b, std::size_t stride) {
    std::memcpy(scratch.before, a, stride * sizeof(T));
    std::memcpy(scratch.before + stride, b, stride * sizeof(T));
}

template <class T> inline void take_back(const Scratch<T> &scratch, T *a, T *b, std::size_t stride) {
    for (std::size_t d = 0; d < stride; ++d) {
        const bool known = scratch.present[d] != T(0);
        a[d] = known ? a[d] : scratch.before[d];
        b[d] = known ? b[d] : scratch.before[stride + d];
    }
}

// How much a step counts, as a share of a whole one.
template <class T> inline double counted(const Scratch<T> &scratch) {
    double total = 0;
    for (std::size_t n = 0; n < scratch.batch; ++n) total += scratch.shares[n];
    return total / double(scratch.batch);
}

inline void add_received(const double *received, std::size_t components, const Report &report) {
    for (std::size_t k = 0; k < components; ++k) report.received[k] += received[k];
}

// Sample number `step`: in scratch.received the weight of every component; returns the winner. Wants the softmax.
template <class T>
inline std::size_t assign_one(const Model<T> &m, const Input<T> &x, const Filter &g, Scratch<T> &scratch, std::size_t step,
                              const Report &report) {
    take_rows(x, step, m, scratch);
    Win win;
    if (scratch.gaps) {
        *report.looked += std::int64_t(m.components * m.stride);
        score_known(m, scratch.samples, scratch.present, scratch.log_weights, scratch.scores);
        win = pick(g, scratch.scores, scratch.pair);
    } else if (scratch.scout.active) {
        const std::size_t before = scratch.scout.spent;
        win.component = find_best(m, scratch.samples, scratch.log_weights, scratch, &win.loss);
        win.max_component = win.loss;
        *report.looked += std::int64_t(scratch.scout.spent - before);
    } else {
        *report.looked += std::int64_t(m.components * m.stride);
        score_one(m, scratch.samples, scratch.log_weights, scratch.scores);
        win = pick(g, scratch.scores, scratch.pair);
    }
    const double share = scratch.shares[0] *= influence(report.usual, m.features, &win.loss, &win.max_component);
    for (std::size_t j = 0; j < m.components; ++j)
        scratch.received[j] = share * (g.identity ? double(j == win.component) : filter_weight(g, win.component, j));
    add_received(scratch.received, m.components, report);
    report.losses[step] = win.loss;
    report.max_components[step] = win.max_component;
    ++report.wins[win.component];
    return win.component;
}

// A batch: the winner of each sample, and in scratch.received the sum of weights of every component. Wants the softmax.
template <class T>
inline void assign_many(const Model<T> &m, const Input<T> &x, const Filter &g, Scratch<T> &scratch, std::size_t step,
                        const Report &report) {
    const std::size_t batch = scratch.batch;
    take_rows(x, step * batch, m, scratch);
    shift(m, scratch.shifted);
    score_batch(m, scratch);
    double loss = 0, max_component = 0;
    for (std::size_t k = 0; k < m.components; ++k) scratch.received[k] = 0;
    for (std::size_t n = 0; n < batch; ++n) {
        Win win = pick(g, scratch.scores + n * m.components, scratch.pair);
        scratch.shares[n] *= influence(report.usual, m.features, &win.loss, &win.max_component);
        scratch.winners[n] = win.component;
        scratch.received[win.component] += scratch.shares[n];
        loss += win.loss;
        max_component += win.max_component;
        ++report.wins[win.component];
    }
    if (!g.identity) smooth(g, scratch.received, 1, scratch.pair, scratch.received);
    add_received(scratch.received, m.components, report);
    report.losses[step] = loss / double(batch);
    report.max_components[step] = max_component / double(batch);
}

// Adds what sample n knows of features [start, stop) to sums about `centre`.
template <class T>
inline void add_sample(const Scratch<T> &scratch, const Model<T> &m, std::size_t n, std::size_t start, std::size_t stop,
                       const double *centre, double *first, double *second, double *zeroth) {
    const T *x = scratch.samples + n * m.stride + start, *present = scratch.present + n * m.stride + start;
    const double share = scratch.shares[n];
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

// [E10] weighted sums of (x - c) and (x - c)^2 for every component over features [start, stop): summed for winners
// only, then smoothed, because annealing is a linear map on the statistics.
// With gaps also the weights themselves, which then differ between features.
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
        add_sample(scratch, m, n, start, stop, centre, first + row, second + row, zeroth + row);
    }
    smooth(g, first, width, half, first);
    smooth(g, second, width, half, second);
    if (scratch.gaps) smooth(g, zeroth, width, half, zeroth);
}

// The same for one component that heard of nobody but its own samples: sums about its own mean.
// OUT centre[stop - start], first, second, zeroth.
template <class T>
inline void own_sums(const Model<T> &m, const Scratch<T> &scratch, std::size_t k, std::size_t start, std::size_t stop,
                     double *centre, double *first, double *second, double *zeroth) {
    for (std::size_t i = 0; i < stop - start; ++i) {
        centre[i] = double(m.means[k * m.stride + start + i]);
        first[i] = second[i] = zeroth[i] = 0;
    }
    for (std::size_t n = 0; n < scratch.batch; ++n)
        if (scratch.winners[n] == k) add_sample(scratch, m, n, start, stop, centre, first, second, zeroth);
}

// Calls `update(k, start, stop, centre, first, second, zeroth)` for blocks of features of every component that receives
// anything from a batch; without gaps, every feature received what its component did, and `zeroth` is null.
template <class T, class Update>
inline void with_sums(const Model<T> &m, const Filter &g, Scratch<T> &scratch, Update update) {
    double centre[block_features];
    const std::size_t width = scratch.sum_features;
    for (std::size_t start = 0; start < m.features; start += width) {
        const std::size_t stop = m.features - start < width ? m.features : start + width;
        if (!g.identity) batch_sums(m, g, scratch, start, stop, centre);
        for (std::size_t k = 0; k < m.components; ++k) {
            if (scratch.received[k] < negligible<T>) continue;
            double *first = scratch.sums + (g.identity ? 0 : k * width), *second = first + m.components * width;
            double *zeroth = second + m.components * width;
            if (g.identity) own_sums(m, scratch, k, start, stop, centre, first, second, zeroth);
            update(k, start, stop, centre, first, second, scratch.gaps ? zeroth : nullptr);
        }
    }
}

} // namespace
