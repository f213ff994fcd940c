// Responsibilities from scores.
#pragma once
#include "softmax.h"

namespace {

// Turns the scores of each row into the probabilities of its components; what would be below 1e-300 is zero.
// INOUT scores[rows, components], scratch room[padded_components(components)].
inline void to_responsibilities(double *scores, std::size_t rows, std::size_t components, double *room) {
    for (double *row = scores; rows > 0; --rows, row += components) {
        double total;
        exponentials(row, components, room, &total);
        const double share = 1 / total;
        for (std::size_t k = 0; k < components; ++k) row[k] = room[k] > 1e-300 ? room[k] * share : 0;
    }
}

} // namespace
