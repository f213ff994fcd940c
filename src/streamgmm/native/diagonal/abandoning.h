// Exact early abandoning. It applies when the filter is the identity, because then only the best component matters.
//
// A few features tell most components apart. A sample is first compared on contiguous copies of these. A distance only
// grows with further features, so a component that is already too far away is dropped; the rest are scored in full by
// the usual loop. Winners and losses are therefore those of the full scan, bit for bit, whichever features are chosen.
#pragma once
#include <cmath>

#include "tiles.h"

namespace {

// A partial distance times this factor cannot exceed the full distance, whatever the rounding: the relative error of a
// sum of 1024 terms in packs is below 3e-6.
template <class T> constexpr double for_sure = 1 - 1e-12;
template <> constexpr double for_sure<float> = 1 - 1e-5;

constexpr std::size_t trial_samples = 8;
constexpr double worth_it = 0.7; // fraction of a full scan; if abandoning costs more, it stops until the next call

// How far away samples with this variance are from each component in each feature, in units of its standard deviation.
// IN m, OUT apart[stride], scratch centre[stride].
template <class T> inline void tell_apart(const Model<T> &m, T variance, T *apart, T *centre) {
    for (std::size_t d = 0; d < m.stride; ++d) apart[d] = centre[d] = T(0);
    const T share = T(1) / T(m.components);
    for (std::size_t k = 0; k < m.components; ++k)
        for (std::size_t d = 0; d < m.stride; ++d) centre[d] += share * m.means[k * m.stride + d];
    for (std::size_t k = 0; k < m.components; ++k)
        for (std::size_t d = 0; d < m.stride; ++d) {
            const T away = m.means[k * m.stride + d] - centre[d], scale = m.scales[k * m.stride + d];
            apart[d] += share * (away * away + variance) * (scale * scale);
        }
}

// Indices of the features with the largest values, in descending order to within a sixteenth. Positive floats sort like
// their bits, so the upper bits serve as buckets.
// IN values[features], OUT order[count].
template <class T>
inline void largest_first(const T *values, std::size_t features, std::uint32_t *order, std::size_t count) {
    constexpr std::size_t buckets = 4096;
    std::uint32_t place[buckets] = {};
    auto bucket = [](T value) {
        const float v = float(value) < 3e38f ? float(value) : 3e38f; // also catches NaN
        std::uint32_t bits;
        std::memcpy(&bits, &v, sizeof bits);
        return buckets - 1 - (bits >> 19);
    };
    for (std::size_t i = 0; i < features; ++i) ++place[bucket(values[i])];
    std::uint32_t before = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
        const std::uint32_t here = place[b];
        place[b] = before;
        before += here;
    }
    for (std::size_t i = 0; i < features; ++i) {
        const std::uint32_t at = place[bucket(values[i])]++;
        if (at < count) order[at] = std::uint32_t(i);
    }
}

// Copies the chosen features of a row; levels are `apart` numbers apart.  IN row, OUT to.
template <class T> inline void copy_chosen(const Scout<T> &scout, const T *row, T *to, std::size_t apart) {
    for (std::size_t at = 0; at < scout.levels; ++at)
        for (std::size_t i = 0; i < scout.level; ++i) to[at * apart + i] = row[scout.order[at * scout.level + i]];
}

// Updates the copies of component k.  IN m, INOUT scout.
template <class T> inline void follow(const Model<T> &m, Scout<T> &scout, std::size_t k) {
    const std::size_t apart = m.components * scout.level;
    copy_chosen(scout, m.means + k * m.stride, scout.means + k * scout.level, apart);
    copy_chosen(scout, m.scales + k * m.stride, scout.scales + k * scout.level, apart);
}

// The same for all components that a step has moved.
template <class T> inline void follow_moved(const Model<T> &m, Scratch<T> &scratch) {
    for (std::size_t k = 0; scratch.scout.active && k < m.components; ++k)
        if (scratch.received[k] >= negligible<T>) follow(m, scratch.scout, k);
}

// Chooses features for the steps of one call. Samples of a frame have the variance 1.  IN m, x, INOUT scratch.
template <class T> inline void prepare(const Model<T> &m, const Input<T> &x, Scratch<T> &scratch) {
    Scout<T> &scout = scratch.scout;
    if (!scout.active) return;
    tell_apart(m, x.frame.shift ? T(1) : T(0), scout.apart, scratch.samples);
    largest_first(scout.apart, m.features, scout.order, scout.levels * scout.level);
    for (std::size_t k = 0; k < m.components; ++k) follow(m, scout, k);
    scout.tried = scout.spent = 0;
}

// Full distances are computed one by one, the most promising component first, until so many were; then all.
constexpr std::size_t looks_one_by_one = 16;

// The best component for one sample, and its score. Where samples are shared out, scratch.exact gets the scores of all
// components within reach of the best.  IN x (padded), OUT best.
template <class T>
inline std::size_t find_best(const Model<T> &m, const T *x, const double *log_weights, Scratch<T> &scratch,
                             double *best) {
    Scout<T> &scout = scratch.scout;
    double *partial = scratch.scores, *bound = scratch.pair, *likely = scratch.pair + m.components;
    std::uint32_t *left = scout.left;
    std::size_t winner = 0, count = m.components;
    const double reach = scratch.soft ? negligible_share<T> : 0;
    *best = -HUGE_VAL;
    for (std::size_t k = 0; scratch.soft && k < m.components; ++k) scratch.exact[k] = -HUGE_VAL;
    auto look_closely = [&](const std::uint32_t *chosen, std::size_t number) { // raises the bar for the others
        scout.spent += number * m.stride;
        compare(
            x, m.means, m.scales, m.stride, number, [&](std::size_t i) { return chosen[i] * m.stride; },
            [&](std::size_t i, double distance) {
                const std::size_t k = chosen[i];
                const double score = score_at(m, log_weights, k, distance);
                if (score > *best || (score == *best && k < winner)) *best = score, winner = k;
                scratch.exact[k] = score;
                bound[k] = -HUGE_VAL;
            });
    };
    auto rule_out = [&] { // without a branch, which would be unpredictable
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t k = left[i];
            left[kept] = k;
            kept += bound[k] >= *best - reach;
        }
        count = kept;
    };
    copy_chosen(scout, x, scout.sample, scout.level);
    scout.spent += m.components * scout.level;
    compare(
        scout.sample, scout.means, scout.scales, scout.level, m.components,
        [&](std::size_t k) { return k * scout.level; }, [&](std::size_t k, double distance) { partial[k] = distance; });
    const double whole = double(m.stride) / double(scout.level); // as if all features were like these
    for (std::size_t k = 0; k < m.components; ++k) {
        left[k] = std::uint32_t(k);
        bound[k] = score_at(m, log_weights, k, partial[k] * for_sure<T>);
        likely[k] = score_at(m, log_weights, k, partial[k] * whole);
    }
    const auto promising = std::uint32_t(argmax(likely, m.components));
    look_closely(&promising, 1);
    rule_out();
    for (std::size_t level = 1; level < scout.levels; ++level) {
        const std::size_t start = level * m.components * scout.level;
        scout.spent += count * scout.level;
        compare(
            scout.sample + level * scout.level, scout.means + start, scout.scales + start, scout.level, count,
            [&](std::size_t i) { return left[i] * scout.level; },
            [&](std::size_t i, double distance) { partial[left[i]] += distance; });
        for (std::size_t i = 0; i < count; ++i)
            bound[left[i]] = score_at(m, log_weights, left[i], partial[left[i]] * for_sure<T>);
        rule_out();
    }
    for (std::size_t looks = 0; count > 0 && looks < looks_one_by_one; ++looks) {
        std::uint32_t next = left[0];
        for (std::size_t i = 1; i < count; ++i) next = bound[left[i]] > bound[next] ? left[i] : next;
        look_closely(&next, 1);
        rule_out();
    }
    look_closely(left, count);
    if (++scout.tried == trial_samples)
        scout.active = double(scout.spent) < worth_it * double(trial_samples * m.components * m.stride);
    return winner;
}

} // namespace
