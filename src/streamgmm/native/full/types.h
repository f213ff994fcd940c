// Plain data of the full kind; see shared/types.h.
#pragma once
#include "../shared/types.h"

namespace streamgmm {

constexpr std::size_t ahead_rows = 8, ahead_lanes = 16; // samples, and rows of F that are kept together

constexpr std::size_t waiting_most = 8;

// Samples by which a covariance has yet to move.
template <class T> struct Waiting {
    std::size_t count;
    T stays[waiting_most], moves[waiting_most]; // 1 - r and r (1 - r), where r is the rate
    T *away;                                    // [waiting_most, stride]
};

// What is known of the next samples; see ahead.h.
template <class T> struct Ahead {
    float *panels;     // [components, rows of F in single precision]; null: nothing
    T *samples;        // [ahead_rows, stride]
    float *away;       // [ahead_rows, stride]
    double *sizes;     // [components] |F|, the root of its sum of squares
    double *drifts;    // [components] how far F (x - mean) may have moved since
    double *lengths;   // [components, ahead_rows] lower bounds of |F (x - mean)|
    std::size_t turn;  // of the samples
    std::size_t rows;  // of F that are looked at
    std::int64_t read; // terms that had been read before the last try with half of the rows
};

// Parameters and statistics of a mixture. The precision of a component is F'F; padding is zero.
template <class T> struct Full : Coupled<T> {
    T *means;            // [components, stride]
    T *factors;          // [components, features, stride] F
    bool lower;          // F is lower triangular
    T *own_means;        // [components, stride] those of the statistics; may be the model's own
    T *covariances;      // [components, features, stride] without the prior
    T *away;             // scratch [8, stride]
    double *room;        // scratch [(3 * features + 12) * stride]
    double *partial;     // scratch [components, 8] sums of squares
    double *halved;      // scratch [components] not 0 where only the upper triangles of covariances have moved
    Waiting<T> *waiting; // scratch [components]
    Ahead<T> ahead;      // scratch
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
