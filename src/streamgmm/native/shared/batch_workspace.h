// Work space for steps of kinds that couple features: owns what Batch points to.
#pragma once
#include <memory>
#include <vector>

#include "aligned.h"
#include "types.h"

namespace streamgmm {

template <class T> class BatchWorkspace {
    std::vector<T> rows, places;
    std::vector<double> numbers, dense;
    std::unique_ptr<bool[]> flags;

  public:
    Batch<T> batch;
    T *away;      // [8, stride]
    double *room; // as many numbers as the kind asks for

    BatchWorkspace(std::size_t components, std::size_t stride, std::size_t size, std::size_t asked)
        : flags(new bool[size]()) {
        const std::size_t padded = (components + 15) / 16 * 16;
        double *at = aligned(numbers, size * (components + 1) + 4 * components + padded);
        auto take = [&at](std::size_t count) { return at += count, at - count; };
        double *weights = take(padded), *scores = take(size * components), *shares = take(size),
               *received = take(components), *pair = take(2 * components), *log_weights = take(components);
        T *samples = aligned(rows, (2 * size + 1) * stride);
        batch = {samples,     samples + size * stride,     flags.get(), scores, shares, received, pair, weights,
                 log_weights, samples + 2 * size * stride, size};
        away = aligned(places, 8 * stride);
        room = aligned(dense, asked);
    }

    BatchWorkspace(const BatchWorkspace &) = delete; // batch points into it
    BatchWorkspace &operator=(const BatchWorkspace &) = delete;
};

} // namespace streamgmm
