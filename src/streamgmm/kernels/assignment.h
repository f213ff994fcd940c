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

inline void add_received(const double *received, std::size_t components, const Report &report) {
    for (std::size_t k = 0; k < components; ++k) report.received[k] += received[k];
}

// Sample number `step`: in scratch.received the weight of every component; returns the winner. Wants the softmax.
template <class T>
inline std::size_t assign_one(const Model<T> &m, const Input<T> &x, const Filter &g, Scratch<T> &scratch, std::size_t step,
                              const Report &report) {
    take_row(x, step, m.features, m.stride, scratch.samples);
    Win win;
    if (scratch.scout.active) {
        const std::size_t before = scratch.scout.spent;
        win.component = find_best(m, scratch.samples, scratch.log_weights, scratch, &win.loss);
        win.max_component = win.loss;
        *report.looked += std::int64_t(scratch.scout.spent - before);
    } else {
        *report.looked += std::int64_t(m.components * m.stride);
        score_one(m, scratch.samples, scratch.log_weights, scratch.scores);
        win = pick(g, scratch.scores, scratch.pair);
    }
    for (std::size_t j = 0; j < m.components; ++j)
        scratch.received[j] = g.identity ? double(j == win.component) : filter_weight(g, win.component, j);
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
    for (std::size_t n = 0; n < batch; ++n)
        take_row(x, step * batch + n, m.features, m.stride, scratch.samples + n * m.stride);
    shift(m, scratch.shifted);
    score_batch(m, scratch);
    double loss = 0, max_component = 0;
    for (std::size_t k = 0; k < m.components; ++k) scratch.received[k] = 0;
    for (std::size_t n = 0; n < batch; ++n) {
        const Win win = pick(g, scratch.scores + n * m.components, scratch.pair);
        scratch.winners[n] = win.component;
        scratch.received[win.component] += 1;
        loss += win.loss;
        max_component += win.max_component;
        ++report.wins[win.component];
    }
    if (!g.identity) smooth(g, scratch.received, 1, scratch.pair, scratch.received);
    add_received(scratch.received, m.components, report);
    report.losses[step] = loss / double(batch);
    report.max_components[step] = max_component / double(batch);
}

// [E10] weighted sums of (x - c) and (x - c)^2 for every component over features [start, stop): summed for winners
// only, then smoothed, because annealing is a linear map on the statistics.
// OUT centre[stop - start], OUT scratch.sums: two arrays of [components, scratch.sum_features].
template <class T>
inline void batch_sums(const Model<T> &m, const Filter &g, Scratch<T> &scratch, std::size_t start, std::size_t stop,
                       double *centre) {
    const std::size_t width = scratch.sum_features, size = m.components * width;
    double *first = scratch.sums, *second = first + size, *half = second + size;
    for (std::size_t i = 0; i < 2 * size; ++i) first[i] = 0;
    for (std::size_t d = start; d < stop; ++d) centre[d - start] = 0;
    for (std::size_t k = 0; k < m.components; ++k)
        for (std::size_t d = start; d < stop; ++d)
            centre[d - start] += scratch.weights[k] * double(m.means[k * m.stride + d]);
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        const T *x = scratch.samples + n * m.stride + start;
        double *a = first + scratch.winners[n] * width, *b = second + scratch.winners[n] * width;
        for (std::size_t i = 0; i < stop - start; ++i) {
            const double away = double(x[i]) - centre[i], square = away * away;
            a[i] += away;
            b[i] += square < 1e300 ? square : 1e300;
        }
    }
    if (g.identity) return;
    smooth(g, first, width, half, first);
    smooth(g, second, width, half, second);
}

// The same for one component that heard of nobody but its own samples: sums about its own mean.
// OUT centre[stop - start], first, second.
template <class T>
inline void own_sums(const Model<T> &m, const Scratch<T> &scratch, std::size_t k, std::size_t start, std::size_t stop,
                     double *centre, double *first, double *second) {
    for (std::size_t i = 0; i < stop - start; ++i) {
        centre[i] = double(m.means[k * m.stride + start + i]);
        first[i] = second[i] = 0;
    }
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        if (scratch.winners[n] != k) continue;
        const T *x = scratch.samples + n * m.stride + start;
        for (std::size_t i = 0; i < stop - start; ++i) {
            const double away = double(x[i]) - centre[i], square = away * away;
            first[i] += away;
            second[i] += square < 1e300 ? square : 1e300;
        }
    }
}

// Calls `update(k, start, stop, centre, first, second)` for blocks of features of every component that receives
// anything from a batch.
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
            if (g.identity) own_sums(m, scratch, k, start, stop, centre, first, second);
            update(k, start, stop, centre, first, second);
        }
    }
}

} // namespace
