// The diagonal kind in Python: arrays were checked when their structs were made; here they only have to fit together.
#include "bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "../dispatch.h"
#include "arrays.h"
#include "row_steps.h"
#include "workspace.h"

using namespace nb::literals;

namespace streamgmm {
namespace {

constexpr std::size_t score_rows = 256; // at least so many rows, if there are, share each read of the parameters
constexpr std::size_t scout_from_samples = 64, scout_from_features = 128; // early abandoning pays from here on

template <class T> bool scouts(const Model<T> &m, const SampleArrays<T> &samples, const Filter &g, bool scan_all) {
    return g.identity && !scan_all && samples.steps * samples.batch_size >= scout_from_samples &&
           m.features >= scout_from_features && m.components > 1;
}

template <class T> WorkspaceNeeds needs(const SampleArrays<T> &samples, bool scouts, bool soft = false) {
    return {samples.batch_size,       samples.batch_size > 1, scouts, samples.input.gaps, true, soft,
            samples.frame.has_value()};
}

template <class T>
void sgd_steps(const ModelArrays<T> &m, const SampleArrays<T> &samples, const FilterArrays &filter, const SgdStep &step,
               const ReportArrays &report) {
    m.require_features(samples);
    const Filter &g = filter.for_components(m.model.components);
    const Report &out = report.for_steps(samples.steps, m.model.components);
    LoopRuns running;
    Workspace<T> work(m.model, needs(samples, scouts(m.model, samples, g, step.scan_all)));
    table<T>().diagonal.sgd_steps(m.model, samples.input, samples.steps, g, step, work.scratch, out);
}

template <class T>
void natural_steps(const ModelArrays<T> &m, const MomentArrays<T> &moments, const SampleArrays<T> &samples,
                   const FilterArrays &filter, const NaturalStep &step, const ReportArrays &report) {
    m.require_features(samples);
    const Filter &g = filter.for_components(m.model.components);
    const Moments<T> &state = moments.for_model(m);
    require(state.means == m.model.means, "the natural rule needs the model's own means as the means of its moments");
    const Report &out = report.for_steps(samples.steps, m.model.components);
    LoopRuns running;
    Workspace<T> work(m.model, needs(samples, scouts(m.model, samples, g, step.scan_all), step.soft && g.identity));
    table<T>().diagonal.natural_steps(m.model, state, samples.input, samples.steps, g, step, work.scratch, out);
}

template <class T>
void em_steps(const ModelArrays<T> &m, const MomentArrays<T> &moments, const SampleArrays<T> &samples,
              const EmStep &step, const ReportArrays &report) {
    m.require_features(samples);
    const Moments<T> &state = moments.for_model(m);
    const Report &out = report.for_steps(samples.steps, m.model.components);
    LoopRuns running;
    Workspace<T> work(m.model, needs(samples, false));
    table<T>().diagonal.em_steps(m.model, state, samples.input, samples.steps, step, work.scratch, out);
}

template <class T>
void score(const ModelArrays<T> &m, const SampleArrays<T> &samples, std::optional<Table2d> scores,
           std::optional<Vector> log_likelihood, std::optional<Vector> max_component, std::optional<Counts> winner) {
    m.require_features(samples);
    const std::size_t rows = samples.rows.shape(0);
    const Answers out = AnswerArrays{scores, log_likelihood, max_component, winner}.for_rows(rows, m.model.components);
    LoopRuns running;
    const std::size_t parts = rows / score_rows ? rows / score_rows : 1, share = rows ? (rows + parts - 1) / parts : 1;
    const std::size_t together = share < score_rows ? share : (share + 31) / 32 * 32; // whole tiles
    Workspace<T> work(m.model, {together, true, false, true, false, false, false});
    table<T>().diagonal.score(m.model, samples.input, rows, work.scratch, out);
}

using RowScore = std::optional<std::tuple<double, double, std::int64_t>>;

// Log-likelihood, max-component value and winner of one plain row; nothing if the row is not plain.
template <class T> RowScore score_row(const ModelArrays<T> &m, Numbers<T> row, double limit, bool gaps) {
    if (!is_plain_row(row, m.model.features, limit, gaps)) return {};
    double log_likelihood, max_component;
    std::int64_t winner;
    const FlushSubnormals mode; // it takes less time than to let another thread run
    Workspace<T> work(m.model, {1, true, false, true, false, false, false});
    const Input<T> input = {row.data(), nullptr, T(1), m.model.features, nullptr, true, {}};
    table<T>().diagonal.score(m.model, input, 1, work.scratch, {nullptr, &log_likelihood, &max_component, &winner});
    return std::make_tuple(log_likelihood, max_component, winner);
}

template <class T>
void answer_rows(const ModelArrays<T> &m, const MomentArrays<T> &moments, Padded<const T> frame, const AnswerStep &step,
                 const ModelArrays<T> &out) {
    const Moments<T> &state = moments.for_model(m);
    require(state.prior, "answers in the units of the rows need a prior");
    require(frame.shape(0) == frame_rows && frame.shape(1) == m.model.features,
            "a frame must have the shape (12, features)");
    require(m.shaped_alike(out.means) && m.model.features == out.model.features && m.model.means != out.model.means,
            "an answer needs parameters of its own, of the same shape");
    const std::size_t stride = m.model.stride;
    std::vector<double> doubles(m.model.components + 6 * stride);
    std::vector<T> row(stride);
    LoopRuns running;
    table<T>().diagonal.answer(m.model, state, frame.data(), step, out.model, doubles.data(), row.data());
}

template <class T> void refresh_log_dets(const ModelArrays<T> &m, std::size_t first, std::size_t last) {
    m.require_components(first, last);
    nb::gil_scoped_release unlocked;
    table<T>().diagonal.refresh_log_dets(m.model, first, last);
}

template <class T>
void rescale(const ModelArrays<T> &m, const MomentArrays<T> &moments, double scale_min, double scale_max,
             std::size_t first, std::size_t last) {
    const Moments<T> &state = moments.for_model(m);
    m.require_components(first, last);
    LoopRuns running;
    table<T>().diagonal.rescale(m.model, state, scale_min, scale_max, first, last);
}

template <class T>
void merge_rows(const PairArrays<T> &out, const PairArrays<T> &start,
                const std::vector<const PairArrays<T> *> &replicas, Square shares, std::optional<double> variance_max,
                std::size_t first, std::size_t last) {
    const std::size_t k = out.means.shape(0), stride = out.means.shape(1);
    require(start.shaped_like(out), "arrays to merge differ in shape");
    require(!replicas.empty(), "there must be at least one replica");
    require(shares.shape(0) == k && shares.shape(1) == replicas.size(),
            "shares must have the shape (components, replicas)");
    require(first <= last && last <= k, "component indices are out of range");
    std::vector<const T *> means, second;
    for (const PairArrays<T> *replica : replicas) {
        require(replica && replica->shaped_like(out), "a replica differs in shape");
        means.push_back(replica->means.data());
        second.push_back(replica->second.data());
    }
    const Merge<T> merge = {
        start.means.data(),       start.second.data(),       means.data(), second.data(), shares.data(), means.size(),
        variance_max.has_value(), variance_max.value_or(0.0)};
    LoopRuns running;
    table<T>().diagonal.merge_rows(merge, stride, first, last, out.means.data(), out.second.data());
}

void bind_steps(nb::module_ &m) {
    nb::class_<SgdStep>(m, "SGDStep", "Settings of gradient steps.")
        .def(
            "__init__",
            [](SgdStep *step, double rate, double scale_min, double scale_max, bool scan_all) {
                new (step) SgdStep{rate, scale_min, scale_max, scan_all};
            },
            "rate"_a, "scale_min"_a, "scale_max"_a, "scan_all"_a);
    nb::class_<NaturalStep>(m, "NaturalStep", "Settings of natural-gradient steps.")
        .def(
            "__init__",
            [](NaturalStep *step, double growth, double count_max, double scale_min, double scale_max, bool hold_scales,
               bool scan_all, bool soft) {
                new (step) NaturalStep{growth, count_max, scale_min, scale_max, hold_scales, scan_all, soft};
            },
            "growth"_a, "count_max"_a, "scale_min"_a, "scale_max"_a, "hold_scales"_a, "scan_all"_a, "soft"_a);
    nb::class_<AnswerStep>(m, "AnswerStep", "Settings of answers in the units of the rows.")
        .def(
            "__init__",
            [](AnswerStep *step, double growth, double pooled, double fewest, double scale_min, double scale_max) {
                new (step) AnswerStep{growth, pooled, fewest, scale_min, scale_max};
            },
            "growth"_a, "pooled"_a, "fewest"_a, "scale_min"_a, "scale_max"_a);
    nb::class_<EmStep>(m, "EMStep", "Settings of stochastic-EM steps.")
        .def(
            "__init__",
            [](EmStep *step, double rate, double exponent, double rate_min, std::size_t first_step, double scale_min,
               double scale_max, bool accumulate) {
                new (step) EmStep{rate, exponent, rate_min, first_step, scale_min, scale_max, accumulate};
            },
            "rate"_a, "exponent"_a, "rate_min"_a, "first_step"_a, "scale_min"_a, "scale_max"_a, "accumulate"_a);
}

struct Names {
    const char *model, *moments, *pair, *rows, *dtype;
};

template <class T> void bind_kind(nb::module_ &m, const Names &names) {
    nb::class_<ModelArrays<T>> model(m, names.model, "Parameters of a diagonal mixture, in the layout of the loops.");
    model
        .def(nb::init<Padded<T>, Padded<T>, Vector, Vector, std::size_t>(), "means"_a.noconvert(),
             "scales"_a.noconvert(), "logits"_a.noconvert(), "log_dets"_a.noconvert(), "n_features"_a)
        .def_prop_ro("n_features", [](const ModelArrays<T> &self) { return self.model.features; })
        .def_prop_ro("components", [](const ModelArrays<T> &self) { return self.model.components; })
        .def("sgd_steps", &sgd_steps<T>, "samples"_a, "filter"_a, "step"_a, "report"_a)
        .def("natural_steps", &natural_steps<T>, "moments"_a, "samples"_a, "filter"_a, "step"_a, "report"_a)
        .def("em_steps", &em_steps<T>, "moments"_a, "samples"_a, "step"_a, "report"_a)
        .def("score", &score<T>, "samples"_a, "scores"_a.noconvert().none(), "log_likelihood"_a.noconvert().none(),
             "max_component"_a.noconvert().none(), "winner"_a.noconvert().none())
        .def("score_row", &score_row<T>, "row"_a.noconvert(), "limit"_a, "gaps"_a)
        .def(
            "score_row", [](const ModelArrays<T> &, nb::handle, double, bool) { return RowScore(); }, "row"_a,
            "limit"_a, "gaps"_a, "Anything else is not plain.")
        .def("answer", &answer_rows<T>, "moments"_a, "frame"_a.noconvert(), "step"_a, "out"_a)
        .def("refresh_log_dets", &refresh_log_dets<T>, "first"_a, "last"_a)
        .def("rescale", &rescale<T>, "moments"_a, "scale_min"_a, "scale_max"_a, "first"_a, "last"_a);
    model.attr("dtype") = nb::module_::import_("numpy").attr("dtype")(names.dtype);
    nb::class_<MomentArrays<T>>(m, names.moments, "Running moments of every component.")
        .def(nb::init<Padded<T>, Padded<T>, Vector, std::optional<Vector>, std::optional<Padded<T>>>(),
             "means"_a.noconvert(), "variances"_a.noconvert(), "masses"_a.noconvert(), "evidence"_a.noconvert().none(),
             "prior"_a.noconvert().none());
    nb::class_<PairArrays<T>>(m, names.pair, "Two arrays to merge: means, and variances or scales.")
        .def(nb::init<Padded<T>, Padded<T>>(), "means"_a.noconvert(), "second"_a.noconvert());
    nb::class_<RowSteps<T>>(m, names.rows, "Natural-gradient steps of one row each.")
        .def(nb::init<const ModelArrays<T> &, const MomentArrays<T> &, const SampleArrays<T> &, const FilterArrays &,
                      const NaturalStep &, const ReportArrays &, const TallyArrays &, double>(),
             "model"_a, "moments"_a, "samples"_a, "filter"_a, "step"_a, "report"_a, "tally"_a, "limit"_a)
        .def("adapt", &RowSteps<T>::adapt, "growth"_a, "count_max"_a, "hold_scales"_a)
        .def("learn_rows", &RowSteps<T>::learn_rows, "rows"_a.noconvert(), "first"_a)
        .def("learn", &RowSteps<T>::learn, "row"_a.noconvert())
        .def("learn", [](const RowSteps<T> &, nb::handle) { return -1; }, "row"_a, "Anything else is not plain.");
    m.def("merge_rows", &merge_rows<T>, "out"_a, "start"_a, "replicas"_a, "shares"_a.noconvert(),
          "variance_max"_a.none(), "first"_a, "last"_a);
}

} // namespace

void bind_diagonal(nb::module_ &m) {
    bind_steps(m);
    bind_kind<float>(m, {"DiagonalModel32", "Moments32", "Pair32", "RowSteps32", "float32"});
    bind_kind<double>(m, {"DiagonalModel64", "Moments64", "Pair64", "RowSteps64", "float64"});
}

} // namespace streamgmm
