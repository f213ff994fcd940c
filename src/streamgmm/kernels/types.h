// Plain data shared by the bindings and every compiled copy of the loops. No functions live here: code that two
// objects compile for different machines must never be merged by the linker.
#pragma once
#include <cstddef>
#include <cstdint>

namespace streamgmm {

// Parameters of a mixture. Rows are `stride` numbers apart: features first, then padding to whole packs with
// means 0 and scales 1, which adds nothing to a distance or a determinant when the sample is padded with zeros.
template <class T> struct Model {
    T *means, *scales;         // [components, stride]
    double *logits, *log_dets; // [components]
    std::size_t components, features, stride;
};

struct Filter {
    const double *along_rows;    // [rows, rows], circulant
    const double *along_columns; // [columns, columns], circulant
    std::size_t rows, columns;
    bool identity; // sigma so small that nothing reaches a neighbour
};

// Rows of data as they come: numbers of the model's own type, or bytes times a factor.
template <class T> struct Input {
    const T *numbers; // or null
    const std::uint8_t *bytes;
    T factor;
    std::size_t stride;   // between rows
    const double *shares; // how much each row counts, or null
    bool gaps;            // NaN marks features that a row does not have
};

constexpr std::size_t scout_levels = 2;

// Features on which components are compared first, and copies of the parameters there.
template <class T> struct Scout {
    T *means, *scales;    // [levels, components, level]
    T *sample;            // [levels, level]
    T *apart;             // [stride of the model]
    std::uint32_t *order; // [levels, level] their numbers in the model
    std::uint32_t *left;  // [components] numbers of those not yet ruled out
    std::size_t level;    // features of a level: whole packs
    std::size_t tried, spent;
    bool active;
};

// Work space for steps of `batch` samples.
template <class T> struct Scratch {
    T *samples;           // [batch, stride] padded copies of the samples of a step
    T *shifted;           // [components + 1, stride] (means - centre) * scales, and the centre
    double *scores;       // [batch, components]
    double *weights;      // [components, padded to whole packs]
    double *log_weights;  // [components]
    double *received;     // [components] weight that each component receives from a step
    double *pair;         // [2 * components]
    double *sums;         // four arrays of [components, sum_features], or two of 1024
    std::size_t *winners; // [batch]
    double *shares;       // [batch] how much each sample counts
    T *present;           // [batch, stride] 0 for features that a sample does not have, 1 for others; unused without gaps
    T *before;            // [2, stride] rows as they were; unused without gaps
    std::size_t batch, sum_features;
    bool gaps; // whether a sample of this step lacks features
    Scout<T> scout;
};

// What each step reports: OUT [steps], OUT [steps]. How often each component has won, and the weight that it has
// received: INOUT [components]. Terms of distances that were looked at for single samples: INOUT [1]. Usual losses:
// INOUT number of samples, level, deviation; or null, and no sample is too strange.
struct Report {
    double *losses, *max_components;
    std::int64_t *wins;
    double *received;
    std::int64_t *looked;
    double *usual;
};

struct SgdStep {
    double rate, scale_min, scale_max;
};

// Running moments of each component: what the natural rule and stochastic EM learn instead of gradients.
template <class T> struct Moments {
    T *means, *variances; // [components, stride]; means may be the model's own
    double *masses;       // [components] counts (natural), or mean responsibilities (stochastic EM)
};

struct NaturalStep {
    double growth, count_max, scale_min, scale_max;
    bool hold_scales; // means move, scales and variances stay
};

struct EmStep {
    double rate, exponent, rate_min; // rate of step t: max(rate_min, rate * (t + 1)^-exponent)
    std::size_t first_step;
    double scale_min, scale_max;
    bool accumulate; // moments move by 1/(t + 1), the model stays
};

// Answers for scored rows; a null pointer means that nobody asked.
struct Answers {
    double *scores;         // [rows, components]
    double *log_likelihood; // [rows]
    double *max_component;  // [rows]
    std::int64_t *winner;   // [rows]
};

// Replicas of two arrays of [components, stride] and where they started from.
template <class T> struct Merge {
    const T *start_means, *start_second;
    const T *const *means, *const *second; // [replicas]
    const double *shares;                  // [components, replicas]
    std::size_t replicas;
    bool moments; // second moments about the means, not plain values
    double most;  // of a second moment
};

template <class T> struct Table {
    std::size_t (*first_unfit_row)(const T *x, std::size_t rows, std::size_t columns, std::size_t stride, T limit,
                                   bool gaps);
    void (*log_dets)(Model<T>, std::size_t first, std::size_t last);
    void (*merge_rows)(Merge<T>, std::size_t stride, std::size_t first, std::size_t last, T *means, T *second);
    void (*rescale)(Model<T>, const T *variances, double scale_min, double scale_max, std::size_t first, std::size_t last);
    void (*score)(Model<T>, Input<T> x, std::size_t rows, Scratch<T>, Answers);
    T (*read_all)(const T *values, std::size_t count);
    void (*rewrite_all)(T *values, std::size_t count, T factor);
    void (*sgd_steps)(Model<T>, Input<T> x, std::size_t steps, Filter, SgdStep, Scratch<T>, Report);
    void (*natural_steps)(Model<T>, Moments<T>, Input<T> x, std::size_t steps, Filter, NaturalStep,
                          Scratch<T>, Report);
    void (*em_steps)(Model<T>, Moments<T>, Input<T> x, std::size_t steps, EmStep, Scratch<T>, Report);
};

struct Loops {
    Table<float> single;
    Table<double> twice;
};

} // namespace streamgmm
