// Steps of one row each: what stays the same from check to check is prepared once.
#pragma once
#include <algorithm>
#include <tuple>

#include "../dispatch.h"
#include "arrays.h"
#include "workspace.h"

namespace streamgmm {

// Natural-gradient steps. It lives in the arrays that it was made of, and keeps them alive.
template <class T> class RowSteps {
    ModelArrays<T> model;
    MomentArrays<T> moments;
    SampleArrays<T> samples; // no rows, but how to read them
    FilterArrays filter;
    NaturalStep step;
    ReportArrays report; // of a period, or of as many steps as are taken at once
    TallyArrays tally;
    double limit;
    Workspace<T> work;

  public:
    RowSteps(const ModelArrays<T> &model_, const MomentArrays<T> &moments_, const SampleArrays<T> &samples_,
             const FilterArrays &filter_, const NaturalStep &step_, const ReportArrays &report_,
             const TallyArrays &tally_, double limit_)
        : model(model_), moments(moments_), samples(samples_), filter(filter_), step(step_), report(report_),
          tally(tally_), limit(limit_),
          work(model.model, {1, false, false, samples.input.gaps, true, step.soft && filter.filter.identity,
                             samples.frame.has_value()}) {
        model.require_features(samples);
        filter.for_components(model.model.components);
        require(moments.for_model(model).means == model.model.means, "moments must have the model's own means");
        report.for_steps(report.losses.shape(0), model.model.components);
        require(samples.batch_size == 1, "single rows are batches of one");
    }

    // Settings that a check may change.
    void adapt(double growth, double count_max, bool hold_scales) {
        step.growth = growth, step.count_max = count_max, step.hold_scales = hold_scales;
    }

    // Learns a row (1, features); returns 1 if a check is due, else 0, or -1 if the row is not plain and nothing was
    // learned.
    int learn(Numbers<T> row) {
        if (!is_plain_row(row, model.model.features, limit, samples.input.gaps)) return -1;
        const FlushSubnormals mode; // it takes less time than to let another thread run
        take_steps(row.data(), model.model.features, 1);
        return tally.add(report.losses.data(), report.max_components.data(), 1);
    }

    // Learns rows [rows, features] that may be learned, from number `first` on, up to the next check, the end of the
    // rows or that of the report.
    // Returns the number of the next row, and whether a check is due.
    std::tuple<std::size_t, bool> learn_rows(Numbers<T> rows, std::size_t first) {
        require(rows.shape(1) == model.model.features && first < rows.shape(0), "rows must have the model's features");
        const std::size_t stride = row_stride(rows);
        const std::size_t steps = std::min({rows.shape(0) - first, tally.left(), report.losses.shape(0)});
        {
            LoopRuns running;
            take_steps(rows.data() + first * stride, stride, steps);
        }
        return {first + steps, tally.add(report.losses.data(), report.max_components.data(), steps)};
    }

  private:
    void take_steps(const T *rows, std::size_t stride, std::size_t steps) {
        Input<T> input = samples.input;
        input.numbers = rows, input.bytes = nullptr, input.stride = stride;
        input.frame.first = std::size_t(tally.level.data()[0]);
        table<T>().diagonal.natural_steps(model.model, moments.moments, input, steps, filter.filter, step, work.scratch,
                                          report.report);
    }
};

} // namespace streamgmm
