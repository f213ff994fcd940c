// Arrays of the diagonal kind as structs; see shared/arrays.h.
#pragma once
#include "../shared/arrays.h"
#include "../shared/bounds.h"
#include "types.h"

namespace streamgmm {

// Parameters in the layout of the loops.
template <class T> struct ModelArrays {
    Padded<T> means, scales; // INOUT [components, stride]
    Vector logits, log_dets; // INOUT [components]
    Model<T> model;

    ModelArrays(Padded<T> means_, Padded<T> scales_, Vector logits_, Vector log_dets_, std::size_t features)
        : means(std::move(means_)), scales(std::move(scales_)), logits(std::move(logits_)),
          log_dets(std::move(log_dets_)) {
        const std::size_t k = means.shape(0), stride = means.shape(1);
        require(k > 0 && features > 0, "a mixture must have at least one component and one feature");
        require(stride * sizeof(T) % pack_bytes == 0 && stride >= features &&
                    stride - features < pack_bytes / sizeof(T),
                "rows of means must be padded to whole packs of 128 bytes");
        require(scales.shape(0) == k && scales.shape(1) == stride, "means and scales differ in shape");
        require(logits.shape(0) == k && log_dets.shape(0) == k,
                "logits and log_dets must have one entry per component");
        model = {means.data(),
                 scales.data(),
                 logits.data(),
                 log_dets.data(),
                 k,
                 features,
                 stride,
                 -0.5 * log_two_pi * double(features)};
    }

    bool shaped_alike(const Padded<T> &a) const { return a.shape(0) == model.components && a.shape(1) == model.stride; }

    void require_components(std::size_t first, std::size_t last) const {
        require(first <= last && last <= model.components, "component indices are out of range");
    }

    void require_features(const SampleArrays<T> &samples) const {
        require(samples.rows.shape(1) == model.features, "samples and mixture differ in their number of features");
    }
};

// Running moments of every component.
template <class T> struct MomentArrays {
    Padded<T> means, variances;     // INOUT [components, stride]
    Vector masses;                  // INOUT [components]
    std::optional<Vector> evidence; // INOUT [components]
    std::optional<Padded<T>> prior; // IN [4, stride]
    Moments<T> moments;

    MomentArrays(Padded<T> means_, Padded<T> variances_, Vector masses_, std::optional<Vector> evidence_,
                 std::optional<Padded<T>> prior_)
        : means(std::move(means_)), variances(std::move(variances_)), masses(std::move(masses_)),
          evidence(std::move(evidence_)), prior(std::move(prior_)),
          moments{means.data(), variances.data(), masses.data(), evidence ? evidence->data() : nullptr,
                  prior ? prior->data() : nullptr} {
        require(evidence.has_value() == prior.has_value(), "a prior needs evidence, and evidence a prior");
        require(!evidence || evidence->shape(0) == means.shape(0), "evidence must have one entry per component");
        require(!prior || (prior->shape(0) == 4 && prior->shape(1) == means.shape(1)),
                "a prior must have four rows like those of the means");
        require(masses.shape(0) == means.shape(0), "masses must have one entry per component");
        require(means.shape(0) == variances.shape(0) && means.shape(1) == variances.shape(1),
                "means and variances differ in shape");
    }

    const Moments<T> &for_model(const ModelArrays<T> &m) const {
        require(m.shaped_alike(means), "moments must have the shape of the model's means");
        return moments;
    }
};

// Two arrays to merge: means, and variances or scales.
template <class T> struct PairArrays {
    Padded<T> means, second; // [components, stride]

    PairArrays(Padded<T> means_, Padded<T> second_) : means(std::move(means_)), second(std::move(second_)) {
        require(means.shape(0) == second.shape(0) && means.shape(1) == second.shape(1),
                "the two arrays of a pair differ in shape");
    }

    bool shaped_like(const PairArrays &other) const {
        return means.shape(0) == other.means.shape(0) && means.shape(1) == other.means.shape(1);
    }
};

} // namespace streamgmm
