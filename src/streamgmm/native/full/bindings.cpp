// The full kind in Python: arrays are checked when their structs are made; here they only have to fit together.
#include "bindings.h"

#include <algorithm>

#include "../dispatch.h"
#include "../shared/coupled_bindings.h"

using namespace nb::literals;

namespace streamgmm {
namespace {

template <class T> struct FullArrays {
    Padded<T> means;         // INOUT [components, stride]
    Cube<T> factors;         // INOUT [components, features, stride]
    Vector logits, log_dets; // INOUT [components]
    Full<T> model = {};

    FullArrays(Padded<T> means_, Cube<T> factors_, Vector logits_, Vector log_dets_)
        : means(std::move(means_)), factors(std::move(factors_)), logits(std::move(logits_)),
          log_dets(std::move(log_dets_)) {
        const std::size_t k = means.shape(0), stride = means.shape(1), d = factors.shape(1);
        require(k > 0 && d > 0, "a mixture must have at least one component and one feature");
        require(stride * sizeof(T) % pack_bytes == 0 && stride >= d && stride - d < pack_bytes / sizeof(T),
                "rows of means must be padded to whole packs of 128 bytes");
        require(factors.shape(0) == k && factors.shape(2) == stride, "means and factors differ in shape");
        require(logits.shape(0) == k && log_dets.shape(0) == k,
                "logits and log_dets must have one entry per component");
        model.logits = logits.data(), model.log_dets = log_dets.data();
        model.components = k, model.features = d, model.stride = stride;
        model.means = means.data(), model.factors = factors.data();
        model.known_from = double(d); // fewer samples do not determine a covariance matrix
    }

    void require_features(const SampleArrays<T> &samples) const {
        require(samples.rows.shape(1) == model.features, "samples and mixture differ in their number of features");
    }
};

template <class T> struct FullMomentArrays {
    Padded<T> means;     // INOUT [components, stride]
    Cube<T> covariances; // INOUT [components, features, stride]
    LearnedArrays<T> learned;

    FullMomentArrays(Padded<T> means_, Cube<T> covariances_, Vector masses, Column<T> pending,
                     std::optional<Vector> evidence, std::optional<Padded<T>> prior)
        : means(std::move(means_)), covariances(std::move(covariances_)),
          learned{std::move(masses), std::move(pending), std::move(evidence), std::move(prior)} {}

    // The model, learning into these statistics.
    Full<T> of(const FullArrays<T> &m) const {
        Full<T> kind = m.model;
        require(means.shape(0) == kind.components && means.shape(1) == kind.stride,
                "statistics must have the shape of the model's means");
        require(covariances.shape(0) == kind.components && covariances.shape(1) == kind.features &&
                    covariances.shape(2) == kind.stride,
                "covariances must have the shape of the model's factors");
        learned.attach(kind);
        kind.own_means = means.data(), kind.covariances = covariances.data();
        return kind;
    }
};

// The work space of steps, attached to a kind.
template <class T> class FullWorkspace : public BatchWorkspace<T> {
    std::vector<Waiting<T>> waiting;
    std::unique_ptr<T[]> deviations, samples;
    std::unique_ptr<float[]> panels, deviations32;
    std::unique_ptr<double[]> bounds;

    // Looking ahead takes copies of all factors: few steps, or steps with few features, do not repay that.
    void attach(Ahead<T> &ahead, const Full<T> &kind) {
        const std::size_t k = kind.components, lines = (kind.features + ahead_lanes - 1) / ahead_lanes;
        ahead.panels = aligned(panels, k * lines * (lines + 1) / 2 * ahead_lanes * ahead_lanes);
        ahead.samples = aligned(samples, ahead_rows * kind.stride);
        std::fill_n(ahead.samples, ahead_rows * kind.stride, T(0));
        ahead.away = aligned(deviations32, ahead_rows * kind.stride);
        ahead.sizes = aligned(bounds, (2 + ahead_rows) * k);
        ahead.drifts = ahead.sizes + k, ahead.lengths = ahead.drifts + k;
    }

  public:
    FullWorkspace(Full<T> &kind, std::size_t size, std::size_t steps = 0)
        : BatchWorkspace<T>(kind.components, kind.stride, size,
                            (3 * kind.features + 12) * kind.stride + 9 * kind.components),
          waiting(kind.components) {
        kind.away = this->away, kind.room = this->room;
        kind.partial = kind.room + (3 * kind.features + 12) * kind.stride;
        kind.halved = kind.partial + 8 * kind.components;
        kind.waiting = waiting.data();
        T *at = aligned(deviations, kind.components * waiting_most * kind.stride);
        for (Waiting<T> &own : waiting) own.away = at, at += waiting_most * kind.stride;
        if (size == 1 && steps >= 2 * ahead_rows && kind.features >= 2 * ahead_lanes) attach(kind.ahead, kind);
    }
};

template <class T> struct FullKind {
    using Number = T;
    using Arrays = FullArrays<T>;
    using Moments = FullMomentArrays<T>;
    using Workspace = FullWorkspace<T>;
    static const auto &loops() { return coupled_table<T>().full; }
};

template <class T>
void sgd_steps(const FullArrays<T> &m, const SampleArrays<T> &samples, const FilterArrays &filter, const SgdStep &step,
               const ReportArrays &report) {
    m.require_features(samples);
    Full<T> kind = m.model;
    const Filter &g = filter.for_components(kind.components);
    const Report &out = report.for_steps(samples.steps, kind.components);
    LoopRuns running;
    FullWorkspace<T> work(kind, samples.batch_size);
    coupled_table<T>().full.sgd_steps(kind, samples.input, samples.steps, g, step, work.batch, out);
}

template <class T> void bind_kind(nb::module_ &m, const char *model_name, const char *moments_name, const char *dtype) {
    nb::class_<FullArrays<T>> model(m, model_name, "Parameters of a mixture with full covariances.");
    model
        .def(nb::init<Padded<T>, Cube<T>, Vector, Vector>(), "means"_a.noconvert(), "factors"_a.noconvert(),
             "logits"_a.noconvert(), "log_dets"_a.noconvert())
        .def("sgd_steps", &sgd_steps<T>, "samples"_a, "filter"_a, "step"_a, "report"_a);
    bind_steps<FullKind<T>>(model, dtype);
    nb::class_<FullMomentArrays<T>>(m, moments_name, "Running means and covariances of every component.")
        .def(nb::init<Padded<T>, Cube<T>, Vector, Column<T>, std::optional<Vector>, std::optional<Padded<T>>>(),
             "means"_a.noconvert(), "covariances"_a.noconvert(), "masses"_a.noconvert(), "pending"_a.noconvert(),
             "evidence"_a.noconvert().none(), "prior"_a.noconvert().none());
}

} // namespace

void bind_full(nb::module_ &m) {
    bind_kind<float>(m, "FullModel32", "FullMoments32", "float32");
    bind_kind<double>(m, "FullModel64", "FullMoments64", "float64");
}

} // namespace streamgmm
