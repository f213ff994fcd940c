// What full and low-rank covariances share in Python. Kind names its Number, Arrays, Moments and Workspace, and has its
// loops().
#pragma once
#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "batch_workspace.h"

namespace streamgmm {

constexpr std::size_t score_rows = 128; // rows scored together: they share each read of the parameters

template <class Kind> using SamplesOf = SampleArrays<typename Kind::Number>;

template <class Kind>
void natural_steps(const typename Kind::Arrays &m, const typename Kind::Moments &moments,
                   const SamplesOf<Kind> &samples, const FilterArrays &filter, const NaturalStep &step,
                   const ReportArrays &report) {
    m.require_features(samples);
    auto kind = moments.of(m);
    const Filter &g = filter.for_components(kind.components);
    require(kind.own_means == kind.means, "the natural rule needs the model's own means as those of its statistics");
    const Report &out = report.for_steps(samples.steps, kind.components);
    LoopRuns running;
    typename Kind::Workspace work(kind, samples.batch_size, samples.steps);
    Kind::loops().natural_steps(kind, samples.input, samples.steps, g, step, work.batch, out);
}

template <class Kind>
void em_steps(const typename Kind::Arrays &m, const typename Kind::Moments &moments, const SamplesOf<Kind> &samples,
              const EmStep &step, const ReportArrays &report) {
    m.require_features(samples);
    auto kind = moments.of(m);
    const Report &out = report.for_steps(samples.steps, kind.components);
    LoopRuns running;
    typename Kind::Workspace work(kind, samples.batch_size);
    Kind::loops().em_steps(kind, samples.input, samples.steps, step, work.batch, out);
}

template <class Kind>
void score(const typename Kind::Arrays &m, const SamplesOf<Kind> &samples, std::optional<Table2d> scores,
           std::optional<Vector> log_likelihood, std::optional<Vector> max_component, std::optional<Counts> winner) {
    m.require_features(samples);
    auto kind = m.model;
    const std::size_t rows = samples.rows.shape(0);
    const Answers out = AnswerArrays{scores, log_likelihood, max_component, winner}.for_rows(rows, kind.components);
    LoopRuns running;
    typename Kind::Workspace work(kind, rows < score_rows ? (rows ? rows : 1) : score_rows);
    Kind::loops().score(kind, samples.input, rows, work.batch, out);
}

template <class Kind> void refresh(const typename Kind::Arrays &m, std::size_t first, std::size_t last) {
    require(first <= last && last <= m.model.components, "component indices are out of range");
    auto kind = m.model;
    nb::gil_scoped_release unlocked;
    typename Kind::Workspace work(kind, 1);
    Kind::loops().refresh(kind, first, last);
}

template <class Kind>
void settle(const typename Kind::Arrays &m, const typename Kind::Moments &moments, double scale_min, double scale_max,
            std::size_t first, std::size_t last) {
    require(first <= last && last <= m.model.components, "component indices are out of range");
    auto kind = moments.of(m);
    LoopRuns running;
    typename Kind::Workspace work(kind, 1);
    Kind::loops().settle(kind, scale_min, scale_max, first, last);
}

// Adds what every kind has to the class of its parameters.
template <class Kind> void bind_steps(nb::class_<typename Kind::Arrays> &model, const char *dtype) {
    using namespace nb::literals;
    using Arrays = typename Kind::Arrays;
    model.def_prop_ro("n_features", [](const Arrays &self) { return self.model.features; })
        .def_prop_ro("components", [](const Arrays &self) { return self.model.components; })
        .def("natural_steps", &natural_steps<Kind>, "moments"_a, "samples"_a, "filter"_a, "step"_a, "report"_a)
        .def("em_steps", &em_steps<Kind>, "moments"_a, "samples"_a, "step"_a, "report"_a)
        .def("score", &score<Kind>, "samples"_a, "scores"_a.noconvert().none(), "log_likelihood"_a.noconvert().none(),
             "max_component"_a.noconvert().none(), "winner"_a.noconvert().none())
        .def("refresh", &refresh<Kind>, "first"_a, "last"_a)
        .def("settle", &settle<Kind>, "moments"_a, "scale_min"_a, "scale_max"_a, "first"_a, "last"_a);
    model.attr("dtype") = nb::module_::import_("numpy").attr("dtype")(dtype);
}

} // namespace streamgmm
