// Plain data that the bindings and every compiled copy of the loops share. No functions here: the linker must never
// merge code that two objects compile for different machines.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#define STREAMGMM_X86 1
#else
#define STREAMGMM_X86 0
#endif

namespace streamgmm {

constexpr std::size_t pack_bytes = 128; // rows of parameters are padded to whole packs

// Smoothing over the grid of components.
struct Filter {
    const double *along_rows;    // [rows, rows], circulant
    const double *along_columns; // [columns, columns], circulant
    std::size_t rows, columns;
    bool identity; // the width is so small that nothing reaches a neighbour
};

// [E23] A sample is (row - shift) * unit, feature by feature, and zero in features that are not active; null pointers
// leave rows as they are. Sums over some of the samples tell whether the frame still fits. Values beyond the clip are
// only counted. Watched features are those whose unusual values are rare: these are summed at every step, clipped.
template <class T> struct Frame {
    const T *shift, *unit, *active, *usual, *clip; // [features] active: 0 not, 1 yes, 2 yes and watched, 3 so, too, and
                                                   // hardly known; usual: a value that many rows share, else NaN
    T *known, *unusual, *far, *far_sums; // INOUT [features] number of values, of those that are not the usual one, and
                                         // of those beyond the clip; sum of the latter, not clipped
    T *sums, *squares, *fourths;         // INOUT [features] sums of their first, second and fourth powers
    std::size_t first, apart, every;     // all features of step t are summed if every divides first + t * apart
};

constexpr std::size_t frame_rows = 12;

template <class T> constexpr T hardly_known = T(3); // activity of a feature of which few unusual values are known
constexpr double explained = 100;                   // times the clip: no unit explains larger values

// Rows of data: numbers of the model's type, or bytes times a factor.
template <class T> struct Input {
    const T *numbers;          // null if the rows are bytes
    const std::uint8_t *bytes; // null if the rows are numbers
    T factor;
    std::size_t stride;   // between rows
    const double *shares; // weight of each row, or null
    bool gaps;            // NaN marks a missing value
    Frame<T> frame;       // how rows become samples
};

// [E20] Number of samples within the bound, level and deviation of their losses, room (a factor of the bound that grows
// with each sample outside; zero keeps it fixed), and number of samples outside.
constexpr std::size_t typical_numbers = 5;

// What steps report.
struct Report {
    double *losses, *max_components; // OUT [steps]
    std::int64_t *wins;              // INOUT [components] samples won
    double *received;                // INOUT [components] weight received
    std::int64_t *terms_read;        // INOUT [1] terms of distances read, except for batches of coupled kinds
    double *typical_loss;            // INOUT [typical_numbers]; null turns [E20] off
};

// Results of scoring; null where not wanted.
struct Answers {
    double *scores;         // OUT [rows, components]
    double *log_likelihood; // OUT [rows]
    double *max_component;  // OUT [rows]
    std::int64_t *winner;   // OUT [rows]
};

struct SgdStep {
    double rate, scale_min, scale_max;
    bool scan_all; // no early abandoning
};

struct NaturalStep {
    double growth, count_max, scale_min, scale_max;
    bool hold_scales; // move means only; with a prior also the variances, but not the scales
    bool scan_all;    // no early abandoning
    bool soft;        // once nothing reaches a neighbour, share samples out by responsibilities
};

struct EmStep {
    double rate, exponent, rate_min; // rate of step t: max(rate_min, rate * (t + 1)^-exponent)
    std::size_t first_step;
    double scale_min, scale_max;
    bool accumulate; // move moments by 1/(t + 1) and leave the model as it is
};

// What steps know of a kind that couples features: its weights and what it has learned. Rows are `stride` numbers
// apart, padded to whole packs.
template <class T> struct Coupled {
    double *logits, *log_dets; // [components]
    std::size_t components, features, stride;
    double *masses;    // [components] counts (natural), or mean responsibilities (stochastic EM); null: learns nothing
    double *evidence;  // [components] weight received in all, or null without a prior
    const T *prior;    // [4, stride] as for diagonal covariances, or null
    double known_from; // samples from which the weight of the prior itself fades; 0: it stays
    T *pending;        // [components] how far statistics have moved since covariances were set
};

// Bounds of variances.
struct Limits {
    double least, most;
};

// Samples of one step, or rows that are scored together, and what they weigh.
template <class T> struct Batch {
    T *samples;          // [size, stride] padded copies
    T *present;          // [size, stride] 0 for missing values, else 1
    bool *has_gaps;      // [size]
    double *scores;      // [size, components], then weights
    double *shares;      // [size]
    double *received;    // [components]
    double *pair;        // [2 * components]
    double *weights;     // [components, padded to whole packs]
    double *log_weights; // [components]
    T *raw;              // [stride] a row as it came
    std::size_t size;
};

// Loops that do not depend on the covariance kind.
template <class T> struct SharedLoops {
    std::size_t (*first_unfit_row)(const T *x, std::size_t rows, std::size_t columns, std::size_t stride, T limit,
                                   bool gaps);
    T (*read_all)(const T *values, std::size_t count);
    void (*rewrite_all)(T *values, std::size_t count, T factor);
};

} // namespace streamgmm
