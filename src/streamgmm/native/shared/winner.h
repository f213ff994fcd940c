// Picking the winner of a sample.
#pragma once
#include "smoothing.h"

namespace {

struct Win {
    std::size_t component;
    double loss, max_component; // smoothed score of the winner; best score without smoothing
};

// [E6] The component whose smoothed score is highest; the lowest index wins a tie.
// IN scores[components], scratch[2 * components].
inline Win pick(const Filter &g, const double *scores, double *scratch) {
    const std::size_t count = g.rows * g.columns;
    const std::size_t best = argmax(scores, count);
    if (g.identity) return {best, scores[best], scores[best]};
    double *smoothed = scratch + count;
    smooth(g, scores, 1, scratch, smoothed);
    const std::size_t winner = argmax(smoothed, count);
    return {winner, smoothed[winner], scores[best]};
}

} // namespace
