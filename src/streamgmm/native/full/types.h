// Plain data of the full kind; see shared/types.h.
#pragma once
#include "../shared/types.h"

namespace streamgmm {

// Parameters and statistics of a mixture. The precision of a component is F'F; padding is zero.
template <class T> struct Full : Coupled<T> {
    T *means;        // [components, stride]
    T *factors;      // [components, features, stride] F
    bool lower;      // F is lower triangular
    T *own_means;    // [components, stride] those of the statistics; may be the model's own
    T *covariances;  // [components, features, stride] without the prior
    T *away;         // scratch [8, stride]
    double *room;    // scratch [(3 * features + 12) * stride]
    double *partial; // scratch [components, 8] sums of squares
    double *halved;  // scratch [components] not 0 where only the upper triangles of covariances have moved
};

template <class T> struct FullLoops {
    void (*score)(Full<T>, Input<T> x, std::size_t rows, Batch<T>, Answers);
    void (*refresh)(Full<T>, std::size_t first, std::size_t last);
    void (*settle)(Full<T>, double scale_min, double scale_max, std::size_t first, std::size_t last);
    void (*sgd_steps)(Full<T>, Input<T> x, std::size_t steps, Filter, SgdStep, Batch<T>, Report);
    void (*natural_steps)(Full<T>, Input<T> x, std::size_t steps, Filter, NaturalStep, Batch<T>, Report);
    void (*em_steps)(Full<T>, Input<T> x, std::size_t steps, EmStep, Batch<T>, Report);
};

} // namespace streamgmm
