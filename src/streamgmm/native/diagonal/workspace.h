// Work space of the diagonal loops: owns what Scratch points to.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "../shared/aligned.h"
#include "../shared/bounds.h"
#include "types.h"

namespace streamgmm {

struct WorkspaceNeeds {
    std::size_t batch;
    bool many;   // samples are scored together
    bool scouts; // early abandoning
    bool gaps;
    bool learns; // samples are kept for an update
    bool soft;   // samples are shared out by responsibilities
    bool framed; // samples have a common scale
};

template <class T> class Workspace {
    std::unique_ptr<T[]> samples, tiles, known, copies;
    std::unique_ptr<double[]> numbers;
    std::vector<std::size_t> winners;
    std::vector<std::uint32_t> order, some;
    std::vector<std::uint64_t> marks;
    std::vector<double> bounds;

  public:
    Scratch<T> scratch;

    Workspace(const Model<T> &m, const WorkspaceNeeds &needs) {
        const std::size_t k = m.components, padded = (k + 15) / 16 * 16, batch = needs.batch;
        const bool sums_up = needs.many && needs.learns;
        std::size_t sum_features = sums_up ? 4096 / k / 32 * 32 : 0;
        if (sums_up) sum_features = sum_features < 32 ? 32 : sum_features > 256 ? 256 : sum_features;
        const std::size_t room = needs.learns ? 4 * k * sum_features + 2 * 1024 : 0;
        winners.resize(batch);
        some.resize(!needs.learns ? 0 : sums_up ? batch : k);
        marks.resize(sums_up ? (batch + 63) / 64 * k : 0);
        double *at = aligned(numbers, batch * (k + 1) + padded + 5 * k + room);
        auto take = [&at](std::size_t count) { return at += count, at - count; };
        double *scores = take(batch * k), *weights = take(padded), *log_weights = take(k), *received = take(k),
               *pair = take(2 * k), *exact = take(k), *shares = take(batch), *sums = take(room);
        const std::size_t held = needs.learns ? batch * m.stride : m.stride;
        T *rows = aligned(samples, held + 2 * m.stride), *next = rows + held, *raw = next + m.stride;
        // scales and shifted means of a block; tiles take an even number of components
        const std::size_t block = 2 * (k < block_components ? k + 1 : block_components) *
                                  (m.stride < block_features ? m.stride : block_features);
        T *centre = aligned(tiles, needs.many ? m.stride + block : 0), *packed = centre + m.stride;
        T *present = needs.gaps ? aligned(known, held + 2 * m.stride) : rows;
        T *before = needs.gaps ? present + held : rows;
        scratch = {rows,           next,         raw,         centre,     packed,  scores,
                   exact,          weights,      log_weights, received,   pair,    sums,
                   winners.data(), marks.data(), some.data(), shares,     present, before,
                   batch,          sum_features, false,       needs.soft, false,   scout(m, needs)};
    }

    Workspace(const Workspace &) = delete; // scratch points into it
    Workspace &operator=(const Workspace &) = delete;

  private:
    // A sixth of the features for each level of comparison; a ninth in a frame, where few features tell more.
    Scout<T> scout(const Model<T> &m, const WorkspaceNeeds &needs) {
        if (!needs.scouts) return {};
        const std::size_t lanes = pack_bytes / sizeof(T),
                          packs = m.stride / (needs.framed && !needs.many ? 9 : 6) / lanes;
        const std::size_t level = (packs ? packs : 1) * lanes, levels = needs.many ? 1 : 2, features = levels * level;
        const std::size_t size = m.components * features, rows = needs.many ? needs.batch : 0;
        order.resize(features + m.components);
        T *at = aligned(copies, 2 * size + (rows ? rows : levels) * level + m.stride);
        T *sample = at + 2 * size, *apart = sample + (rows ? rows : levels) * level;
        bounds.assign(m.components + rows, 0.0);
        return {at,
                at + size,
                sample,
                apart,
                order.data(),
                order.data() + features,
                bounds.data(),
                bounds.data() + m.components,
                levels,
                level,
                0,
                0,
                true};
    }
};

} // namespace streamgmm
