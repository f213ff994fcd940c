// The low-rank kind in Python: arrays are checked when their structs are made; here they only have to fit together.
#include "bindings.h"

#include "../dispatch.h"
#include "../shared/coupled_bindings.h"

using namespace nb::literals;

namespace streamgmm {
namespace {

template <class T> struct LowRankArrays {
    Padded<T> means, scales;      // INOUT [components, stride]
    Cube<T> factors, projections; // INOUT [components, rank, stride]
    Cube<T> spreads, gains;       // INOUT [components, rank, rank]
    Vector logits, log_dets;      // INOUT [components]
    LowRank<T> model = {};

    LowRankArrays(Padded<T> means_, Padded<T> scales_, Cube<T> factors_, Cube<T> projections_, Cube<T> spreads_,
                  Cube<T> gains_, Vector logits_, Vector log_dets_, std::size_t features)
        : means(std::move(means_)), scales(std::move(scales_)), factors(std::move(factors_)),
          projections(std::move(projections_)), spreads(std::move(spreads_)), gains(std::move(gains_)),
          logits(std::move(logits_)), log_dets(std::move(log_dets_)) {
        const std::size_t k = means.shape(0), stride = means.shape(1), rank = factors.shape(1);
        require(k > 0 && features > 0 && rank > 0, "a mixture must have a component, a feature and a factor");
        require(stride * sizeof(T) % pack_bytes == 0 && stride >= features &&
                    stride - features < pack_bytes / sizeof(T),
                "rows of means must be padded to whole packs of 128 bytes");
        require(scales.shape(0) == k && scales.shape(1) == stride, "means and scales differ in shape");
        require(factors.shape(0) == k && factors.shape(2) == stride, "means and factors differ in shape");
        require(projections.shape(0) == k && projections.shape(1) == rank && projections.shape(2) == stride,
                "factors and projections differ in shape");
        for (const Cube<T> *square : {&spreads, &gains})
            require(square->shape(0) == k && square->shape(1) == rank && square->shape(2) == rank,
                    "spreads and gains must have the shape (components, rank, rank)");
        require(logits.shape(0) == k && log_dets.shape(0) == k,
                "logits and log_dets must have one entry per component");
        model.logits = logits.data(), model.log_dets = log_dets.data();
        model.components = k, model.features = features, model.stride = stride, model.rank = rank;
        model.means = means.data(), model.scales = scales.data(), model.factors = factors.data();
        model.projections = projections.data(), model.spreads = spreads.data(), model.gains = gains.data();
    }

    void require_features(const SampleArrays<T> &samples) const {
        require(samples.rows.shape(1) == model.features, "samples and mixture differ in their number of features");
    }
};

// What factors learn: covariances of z and x, second moments of z and its running mean.
template <class T> struct FactorArrays {
    Cube<T> cross, inner; // INOUT [components, rank, stride], [components, rank, rank]
    Padded<T> shifts;     // INOUT [components, rank]
};

template <class T> struct LowRankMomentArrays {
    Padded<T> means, variances; // INOUT [components, stride]
    FactorArrays<T> factors;
    LearnedArrays<T> learned;

    LowRankMomentArrays(Padded<T> means_, Padded<T> variances_, FactorArrays<T> factors_, Vector masses,
                        Column<T> pending, std::optional<Vector> evidence, std::optional<Padded<T>> prior)
        : means(std::move(means_)), variances(std::move(variances_)), factors(std::move(factors_)),
          learned{std::move(masses), std::move(pending), std::move(evidence), std::move(prior)} {}

    // The model, learning into these statistics.
    LowRank<T> of(const LowRankArrays<T> &m) const {
        LowRank<T> kind = m.model;
        const std::size_t k = kind.components, rank = kind.rank;
        require(means.shape(0) == k && means.shape(1) == kind.stride && variances.shape(0) == k &&
                    variances.shape(1) == kind.stride,
                "statistics must have the shape of the model's means");
        const auto &[cross, inner, shifts] = factors;
        require(cross.shape(0) == k && cross.shape(1) == rank && cross.shape(2) == kind.stride,
                "cross must have the shape of the model's factors");
        require(inner.shape(0) == k && inner.shape(1) == rank && inner.shape(2) == rank,
                "inner must have the shape (components, rank, rank)");
        require(shifts.shape(0) == k && shifts.shape(1) == rank, "shifts must have the shape (components, rank)");
        learned.attach(kind);
        kind.own_means = means.data(), kind.variances = variances.data();
        kind.cross = cross.data(), kind.inner = inner.data(), kind.shifts = shifts.data();
        return kind;
    }
};

// The work space of steps, attached to a kind.
template <class T> struct LowRankWorkspace : BatchWorkspace<T> {
    LowRankWorkspace(LowRank<T> &kind, std::size_t size, std::size_t = 0)
        : BatchWorkspace<T>(kind.components, kind.stride, size,
                            (kind.rank + 4) * kind.stride + 8 * kind.rank * (kind.rank + 1)) {
        kind.away = this->away, kind.room = this->room;
    }
};

template <class T> struct LowRankKind {
    using Number = T;
    using Arrays = LowRankArrays<T>;
    using Moments = LowRankMomentArrays<T>;
    using Workspace = LowRankWorkspace<T>;
    static const auto &loops() { return coupled_table<T>().low_rank; }
};

template <class T> void bind_kind(nb::module_ &m, const char *model_name, const char *moments_name, const char *dtype) {
    nb::class_<LowRankArrays<T>> model(m, model_name, "Parameters of a mixture of factor analysers.");
    model.def(nb::init<Padded<T>, Padded<T>, Cube<T>, Cube<T>, Cube<T>, Cube<T>, Vector, Vector, std::size_t>(),
              "means"_a.noconvert(), "scales"_a.noconvert(), "factors"_a.noconvert(), "projections"_a.noconvert(),
              "spreads"_a.noconvert(), "gains"_a.noconvert(), "logits"_a.noconvert(), "log_dets"_a.noconvert(),
              "n_features"_a);
    bind_steps<LowRankKind<T>>(model, dtype);
    nb::class_<LowRankMomentArrays<T>>(m, moments_name, "Running statistics of every component.")
        .def(
            "__init__",
            [](LowRankMomentArrays<T> *self, Padded<T> means, Padded<T> variances, Cube<T> cross, Cube<T> inner,
               Padded<T> shifts, Vector masses, Column<T> pending, std::optional<Vector> evidence,
               std::optional<Padded<T>> prior) {
                new (self)
                    LowRankMomentArrays<T>(means, variances, {cross, inner, shifts}, masses, pending, evidence, prior);
            },
            "means"_a.noconvert(), "variances"_a.noconvert(), "cross"_a.noconvert(), "inner"_a.noconvert(),
            "shifts"_a.noconvert(), "masses"_a.noconvert(), "pending"_a.noconvert(), "evidence"_a.noconvert().none(),
            "prior"_a.noconvert().none());
}

} // namespace

void bind_low_rank(nb::module_ &m) {
    bind_kind<float>(m, "LowRankModel32", "LowRankMoments32", "float32");
    bind_kind<double>(m, "LowRankModel64", "LowRankMoments64", "float64");
}

} // namespace streamgmm
