// Which samples of a batch concern which component: a bit for each pair.
#pragma once
#include "types.h"

namespace {

using namespace streamgmm;

template <class T> inline void clear_marks(const Scratch<T> &scratch, std::size_t components) {
    for (std::size_t i = 0; i < (scratch.batch + 63) / 64 * components; ++i) scratch.marks[i] = 0;
}

// Marks sample n for all components that are wanted.  INOUT scratch.marks.
template <class T, class Wanted>
inline void mark(const Scratch<T> &scratch, std::size_t components, std::size_t n, Wanted wanted) {
    std::uint64_t *marks = scratch.marks + n / 64 * components;
    const std::uint64_t bit = std::uint64_t(1) << n % 64;
    for (std::size_t k = 0; k < components; ++k) marks[k] |= wanted(k) ? bit : 0;
}

template <class T>
inline void unmark(const Scratch<T> &scratch, std::size_t components, std::size_t n, std::size_t component) {
    scratch.marks[n / 64 * components + component] &= ~(std::uint64_t(1) << n % 64);
}

// Marks each sample for its winner only.  IN scratch.winners, OUT scratch.marks.
template <class T> inline void mark_winners(const Scratch<T> &scratch, std::size_t components) {
    clear_marks(scratch, components);
    for (std::size_t n = 0; n < scratch.batch; ++n)
        scratch.marks[n / 64 * components + scratch.winners[n]] |= std::uint64_t(1) << n % 64;
}

// Calls `found(n)` for all samples that are marked for component k, in order.
template <class T, class Found>
inline void for_marked(const Scratch<T> &scratch, std::size_t components, std::size_t k, Found found) {
    for (std::size_t first = 0; first < scratch.batch; first += 64)
        for (std::uint64_t left = scratch.marks[first / 64 * components + k]; left; left &= left - 1)
            found(first + std::size_t(__builtin_ctzll(left)));
}

} // namespace
