// Exact early abandoning for batches.
//
// The samples of a batch are first compared with all components on a few features, by the tiles that compare them on
// all. Terms are the same ones there, bit for bit, and none is negative; so the sum of a few bounds the sum of all. A
// sample is then scored in full by the component that promises most, and by those that may reach it.
#pragma once
#include "abandoning.h"
#include "marks.h"

namespace {

// Distances of R rows from a component, over `count` features. Goes over up to V vectors of each pack at a time, so
// that sums stay in registers.  IN rows[R], centre, scales, shifted: (mean - centre) * scale; OUT out[R].
template <class T, int R, std::size_t V>
inline void distances_about(const T *const *rows, const T *centre, const T *scales, const T *shifted, std::size_t count,
                            T *out) {
    Pack<T> total[R];
    UNROLLED_FOR (std::size_t first = 0; first < pack_vectors; first += V) {
        typename Lanes<T>::vector acc[R][V] = {};
        for (std::size_t d = first * vector_lanes<T>; d < count; d += pack_lanes<T>)
            UNROLLED_FOR (std::size_t i = 0; i < V; ++i) {
                const std::size_t at = d + i * vector_lanes<T>;
                const auto c = load_vector(centre + at), s = load_vector(scales + at), b = load_vector(shifted + at);
                UNROLLED_FOR (int r = 0; r < R; ++r) {
                    const auto z = (load_vector(rows[r] + at) - c) * s - b;
                    acc[r][i] += z * z;
                }
            }
        UNROLLED_FOR (int r = 0; r < R; ++r)
            UNROLLED_FOR (std::size_t i = 0; i < V; ++i) total[r].v[first + i] = acc[r][i];
    }
    sums<T, R>(total, out);
}

// Scores of component k for some samples, as `score_batch` gives them.  IN m, chosen[number]; INOUT scratch.
template <class T>
inline void score_chosen(const Model<T> &m, std::size_t k, const std::uint32_t *chosen, std::size_t number,
                         Scratch<T> &scratch) {
    constexpr std::size_t together = 4;
    if (!number) return;
    for (std::size_t start = 0; start < m.stride; start += block_features) {
        const std::size_t count = m.stride - start < block_features ? m.stride - start : block_features;
        const T *means = m.means + k * m.stride + start, *scales = m.scales + k * m.stride + start;
        const T *centre = scratch.centre + start;
        T *shifted = scratch.packed;
        for (std::size_t d = 0; d < count; d += vector_lanes<T>)
            store_vector(shifted + d, (load_vector(means + d) - load_vector(centre + d)) * load_vector(scales + d));
        auto add = [&](std::size_t n, T distance) {
            double &score = scratch.scores[n * m.components + k];
            score = start ? score + double(distance) : double(distance);
            if (start + count == m.stride) score = score_at(m, scratch.log_weights, k, score);
        };
        auto row = [&](std::size_t i) { return scratch.samples + chosen[i] * m.stride + start; };
        std::size_t i = 0;
        T found[together];
        for (; i + together <= number; i += together) {
            const T *rows[together];
            UNROLLED_FOR (std::size_t r = 0; r < together; ++r) rows[r] = row(i + r);
            distances_about<T, together, 2>(rows, centre, scales, shifted, count, found);
            for (std::size_t r = 0; r < together; ++r) add(chosen[i + r], found[r]);
        }
        for (; i < number; ++i) {
            const T *one = row(i);
            distances_about<T, 1, pack_vectors>(&one, centre, scales, shifted, count, found);
            add(chosen[i], found[0]);
        }
    }
}

// Scores of all components on the chosen features become bounds of their scores; stores the most promising component
// of each sample.  IN m; INOUT scratch.
template <class T> inline void bound_scores(const Model<T> &m, Scratch<T> &scratch) {
    Scout<T> &scout = scratch.scout;
    for (std::size_t n = 0; n < scratch.batch; ++n)
        copy_chosen(scout, scratch.samples + n * m.stride, scout.sample + n * scout.level, 0);
    const Model<T> few = {scout.means, scout.scales, m.logits, scout.zeros, m.components, scout.level, scout.level, 0};
    const Input<T> rows = {scout.sample, nullptr, T(1), scout.level, nullptr, false, {}};
    score_many(few, {rows, 0, scout.level, scratch.centre, scratch.packed, scout.zeros}, scratch.batch, scratch.scores);
    const double whole = double(m.stride) / double(scout.level);
    double *likely = scratch.pair;
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        double *row = scratch.scores + n * m.components;
        for (std::size_t k = 0; k < m.components; ++k) {
            const double distance = -2 * row[k];
            row[k] = score_at(m, scratch.log_weights, k, distance * for_sure<T>);
            likely[k] = score_at(m, scratch.log_weights, k, distance * whole);
        }
        scratch.winners[n] = argmax(likely, m.components);
    }
}

// Scores of the samples in scratch: exact for all components within reach of the best, the lowest number for others.
// IN m, INOUT scratch.
template <class T> inline void score_near_best(const Model<T> &m, Scratch<T> &scratch) {
    Scout<T> &scout = scratch.scout;
    const std::size_t batch = scratch.batch, count = m.components;
    double *scores = scratch.scores, *bar = scout.bar;
    const double reach = scratch.soft ? negligible_share<T> : 0;
    bound_scores(m, scratch);
    scout.spent += batch * count * scout.level;
    find_centre(m, 0, m.stride, scratch.centre);
    auto look_closely = [&] { // raises the bar for the components that follow
        for (std::size_t k = 0; k < count; ++k) {
            std::size_t number = 0;
            for_marked(scratch, count, k, [&](std::size_t n) { // without a branch, which would be unpredictable
                double &score = scores[n * count + k];
                const bool possible = score >= bar[n];
                score = possible ? score : -HUGE_VAL;
                scratch.some[number] = std::uint32_t(n);
                number += possible;
            });
            score_chosen(m, k, scratch.some, number, scratch);
            scout.spent += number * m.stride;
            for (std::size_t i = 0; i < number; ++i) {
                const std::size_t n = scratch.some[i];
                const double found = scores[n * count + k] - reach;
                bar[n] = found > bar[n] ? found : bar[n];
            }
        }
    };
    for (std::size_t n = 0; n < batch; ++n) bar[n] = -HUGE_VAL;
    mark_winners(scratch, count);
    look_closely();
    clear_marks(scratch, count);
    for (std::size_t n = 0; n < batch; ++n) {
        double *row = scores + n * count;
        const double first = row[scratch.winners[n]], least = bar[n];
        mark(scratch, count, n, [&](std::size_t k) { return row[k] >= least; });
        for (std::size_t k = 0; k < count; ++k) row[k] = row[k] >= least ? row[k] : -HUGE_VAL;
        unmark(scratch, count, n, scratch.winners[n]);
        row[scratch.winners[n]] = first;
    }
    look_closely();
}

// A view of some samples of a batch.
template <class T>
inline Scratch<T> part_of(const Model<T> &m, const Scratch<T> &scratch, std::size_t first, std::size_t number) {
    Scratch<T> part = scratch;
    part.samples += first * m.stride;
    part.scores += first * m.components;
    part.winners += first;
    part.batch = number;
    return part;
}

constexpr std::size_t trial_rows = 16;

// Scores of the samples in scratch, as far as the best are concerned. The first samples of a call tell whether it pays
// to abandon the others; if not, all are scored until the next call.  IN m, INOUT scratch.
template <class T> inline void score_best(const Model<T> &m, Scratch<T> &scratch) {
    Scout<T> &scout = scratch.scout;
    if (scout.tried) return score_near_best(m, scratch);
    const std::size_t first = scratch.batch < trial_rows ? scratch.batch : trial_rows;
    Scratch<T> part = part_of(m, scratch, 0, first);
    score_near_best(m, part);
    scout.tried = first;
    scout.spent = part.scout.spent;
    scout.active = double(scout.spent) < worth_it * double(first * m.components * m.stride);
    if (first == scratch.batch) return;
    part = part_of(m, scratch, first, scratch.batch - first);
    if (scout.active)
        score_near_best(m, part);
    else
        score_batch(m, part);
    scout.spent = scout.active ? part.scout.spent : scout.spent + part.batch * m.components * m.stride;
}

} // namespace
