// Plain data of the diagonal kind; see shared/types.h.
#pragma once
#include "../shared/types.h"

namespace streamgmm {

// Parameters of a mixture. Rows are `stride` numbers apart: features first, then padding to whole packs with mean 0
// and scale 1, which adds nothing to a distance or a determinant when the sample is padded with zeros.
template <class T> struct Model {
    T *means, *scales;         // [components, stride]
    double *logits, *log_dets; // [components]
    std::size_t components, features, stride;
    double constant; // of log-densities: -log(2 pi) / 2 for each feature. As an expression, it would be fused with a
                     // sum here and not there, and scores of the same sample would differ
};

// Running moments of each component, which the natural rule and stochastic EM learn instead of following gradients.
template <class T> struct Moments {
    T *means, *variances; // [components, stride]; means may be the model's own
    double *masses;       // [components] counts (natural), or mean responsibilities (stochastic EM)
    double *evidence;     // [components] weight received in all, or null without a prior
    const T *prior;       // [4, stride] the variance that a prior expects, its weight in samples, what is added to a
                          // variance, and the smallest variance; or null
};

constexpr std::size_t block_components = 64; // parameters of a block of them fit into the L2 cache

// Features on which components are compared first, and copies of the parameters there.
template <class T> struct Scout {
    T *means, *scales;    // [levels, components, level]
    T *sample;            // [levels, level]; [batch, level] for batches, which have one level
    T *apart;             // [stride of the model]
    std::uint32_t *order; // [levels, level] indices of the features in the model
    std::uint32_t *left;  // [components] indices of components not yet ruled out
    double *zeros, *bar;  // [components], [batch] scores that others must reach; for batches
    std::size_t levels;
    std::size_t level; // features per level: whole packs
    std::size_t tried, spent;
    bool active;
};

// Work space for steps of `batch` samples.
template <class T> struct Scratch {
    T *samples;           // [batch, stride] padded copies of the samples of a step
    T *next;              // [stride] the sample of the next step, where steps look ahead
    T *raw;               // [stride] a row before it becomes a sample
    T *centre;            // [stride] what samples are compared about when many are scored
    T *packed;            // parameters of a block of components, as tiles read them
    double *scores;       // [batch, components]; weights of samples where they are shared out; distances from `next`
    double *exact;        // [components] scores of candidates for a share, the lowest number for others
    double *weights;      // [components, padded to whole packs]
    double *log_weights;  // [components]
    double *received;     // [components] weight that each component receives in a step
    double *pair;         // [2 * components]
    double *sums;         // four arrays of [components, sum_features], or up to three of 1024
    std::size_t *winners; // [batch]
    std::uint64_t *marks; // [words, components] a bit for each sample, of samples that concern a component; for batches
    std::uint32_t *some;  // [batch] indices of some samples, or [components] of components if there is one sample
    double *shares;       // [batch] weight of each sample
    T *present;           // [batch, stride] 0 for missing values, else 1; unused without gaps
    T *before;            // [2, stride] rows before the step; unused without gaps
    std::size_t batch, sum_features;
    bool gaps;  // whether a sample of this step has gaps
    bool soft;  // whether samples are shared out by responsibilities
    bool ahead; // whether this step compares components with the next sample
    Scout<T> scout;
};

// Weighted sums over samples for a block of features of one component.
struct Sums {
    double *centre;         // [features of the block] what the sums are about
    double *first, *second; // weighted sums of (x - centre) and (x - centre)^2
    double *zeroth;         // sums of weights where features differ in them, that is with gaps; else null or unused
};

// Two arrays of [components, stride] of each replica, and where they started.
template <class T> struct Merge {
    const T *start_means, *start_second;
    const T *const *means, *const *second; // [replicas]
    const double *shares;                  // [components, replicas]
    std::size_t replicas;
    bool moments; // merge the second array as second moments about the means
    double most;  // upper bound of a second moment
};

struct AnswerStep {
    double growth, pooled, fewest; // growth of counts; samples from which own variances tell more; smallest count
    double scale_min, scale_max;
};

template <class T> struct DiagonalLoops {
    void (*refresh_log_dets)(Model<T>, std::size_t first, std::size_t last);
    void (*merge_rows)(Merge<T>, std::size_t stride, std::size_t first, std::size_t last, T *means, T *second);
    void (*rescale)(Model<T>, Moments<T>, double scale_min, double scale_max, std::size_t first, std::size_t last);
    void (*score)(Model<T>, Input<T> x, std::size_t rows, Scratch<T>, Answers);
    void (*answer)(Model<T>, Moments<T>, const T *frame, AnswerStep, Model<T> out, double *doubles, T *row);
    void (*sgd_steps)(Model<T>, Input<T> x, std::size_t steps, Filter, SgdStep, Scratch<T>, Report);
    void (*natural_steps)(Model<T>, Moments<T>, Input<T> x, std::size_t steps, Filter, NaturalStep, Scratch<T>, Report);
    void (*em_steps)(Model<T>, Moments<T>, Input<T> x, std::size_t steps, EmStep, Scratch<T>, Report);
};

} // namespace streamgmm
