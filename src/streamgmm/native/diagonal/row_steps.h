// Steps of single rows: what stays the same until the next check is prepared once.
#pragma once
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
    ReportArrays report; // of one step
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
        report.for_steps(1, model.model.components);
        require(samples.batch_size == 1, "single rows are batches of one");
    }

    // Learns a row (1, features); returns how many rows are left until the next check, or -1 if the row is not plain
    // and nothing was learned.
    std::int64_t learn(Numbers<T> row) {
        if (!is_plain_row(row, model.model.features, limit, samples.input.gaps)) return -1;
        Input<T> input = samples.input;
        input.numbers = row.data(), input.bytes = nullptr;
        input.frame.first = std::size_t(tally.level.data()[0]);
        {
            const FlushSubnormals mode; // it takes less time than to let another thread run
            table<T>().diagonal.natural_steps(model.model, moments.moments, input, 1, filter.filter, step, work.scratch,
                                              report.report);
        }
        return tally.add(report.losses.data()[0], report.max_components.data()[0]);
    }
};

} // namespace streamgmm
