// Plain data of the low-rank kind; see shared/types.h.
#pragma once
#include "../shared/types.h"

namespace streamgmm {

// Mixture of factor analysers: x = mean + A z + noise. The precision of a component is diag(s²) - R'R, where s are the
// scales of the noise and R = inverse(L) A' diag(s²), with LL' = I + A' diag(s²) A. Padding is zero, 1 for scales.
template <class T> struct LowRank : Coupled<T> {
    std::size_t rank;
    T *means, *scales;        // [components, stride]
    T *factors, *projections; // [components, rank, stride] A', R
    T *spreads;               // [components, rank, rank] S, lower: z = S u, and u has independent entries
    T *gains;                 // [components, rank, rank] inverse(L) S': z is expected at gains' R (x - mean)
    T *own_means, *variances; // [components, stride] statistics; the means may be the model's own
    T *cross;                 // [components, rank, stride] covariances of z and x
    T *inner;                 // [components, rank, rank] second moments of z; zero before factors begin to grow
    T *shifts;                // [components, rank] running mean of z
    T *away;                  // scratch [4, stride]
    double *room;             // scratch [(rank + 4) * stride + 8 * rank * (rank + 1)]
};

template <class T> struct LowRankLoops {
    void (*score)(LowRank<T>, Input<T> x, std::size_t rows, Batch<T>, Answers);
    void (*refresh)(LowRank<T>, std::size_t first, std::size_t last);
    void (*settle)(LowRank<T>, double scale_min, double scale_max, std::size_t first, std::size_t last);
    void (*natural_steps)(LowRank<T>, Input<T> x, std::size_t steps, Filter, NaturalStep, Batch<T>, Report);
    void (*em_steps)(LowRank<T>, Input<T> x, std::size_t steps, EmStep, Batch<T>, Report);
};

} // namespace streamgmm
