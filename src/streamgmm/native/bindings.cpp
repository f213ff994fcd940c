// The Python module: structs of arrays and functions that every covariance kind shares.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "diagonal/bindings.h"
#include "dispatch.h"
#include "full/bindings.h"
#include "low_rank/bindings.h"
#include "shared/aligned.h"
#include "shared/annealing.h"
#include "shared/arrays.h"
#include "shared/columns.h"
#include "shared/control.h"

using namespace nb::literals;
using namespace streamgmm;

namespace {

void bind_smooth_losses(nb::module_ &m) {
    auto bound = [](Vector state, Vector losses, Vector max_components, double batch_size, double period,
                    double opening, bool robust, double farthest) {
        require(state.shape(0) == 5, "state must have five entries");
        require(losses.shape(0) == max_components.shape(0), "losses and max_components differ in length");
        smooth_losses(state.data(), losses.data(), max_components.data(), losses.shape(0),
                      {batch_size, period, opening, robust, farthest});
    };
    m.def("smooth_losses", bound, "state"_a.noconvert(), "losses"_a.noconvert(), "max_components"_a.noconvert(),
          "batch_size"_a, "period"_a, "opening"_a, "robust"_a, "farthest"_a);
}

void sum_losses_above(Vector state, Vector losses) {
    require(state.shape(0) == 4, "state must have four entries");
    sum_above(state.data(), losses.data(), losses.shape(0));
}

std::size_t average_usage_of(Vector usage, Counts wins, double memory, double live) {
    require(usage.shape(0) == wins.shape(0), "usage and wins differ in length");
    return average_usage(usage.data(), wins.data(), usage.shape(0), memory, live);
}

void move_weights_of(Vector weights, Vector received, Vector since, double total, double rate) {
    require(weights.shape(0) == received.shape(0) && weights.shape(0) == since.shape(0),
            "weights, received and since differ in length");
    move_weights(weights.data(), received.data(), since.data(), weights.shape(0), total, rate);
}

double upper_median_of(Vector values) {
    require(values.shape(0) > 0, "there must be at least one number");
    return upper_median(values.data(), values.shape(0));
}

void copy_rows(const nb::list &values, Padded<std::uint8_t> out) {
    const std::size_t rows = out.shape(0), width = out.shape(1);
    require(nb::len(values) == rows, "values and rows differ in number");
    std::vector<const char *> from;
    from.reserve(rows);
    for (nb::handle value : values) {
        const nb::bytes bytes = nb::cast<nb::bytes>(value);
        require(bytes.size() == width, "values differ in length from the rows");
        from.push_back(bytes.c_str());
    }
    nb::gil_scoped_release unlocked;
    loops().copy_rows(from.data(), rows, width, out.data());
}

void to_responsibilities(Table2d scores) {
    const std::size_t rows = scores.shape(0), components = scores.shape(1);
    require(components > 0, "there must be at least one component");
    nb::gil_scoped_release unlocked;
    std::unique_ptr<double[]> room;
    loops().to_responsibilities(scores.data(), rows, components, aligned(room, components + pack_bytes));
}

template <class T> void copy_columns(const nb::list &columns, Padded<T> out) {
    require(nb::len(columns) == out.shape(1), "columns and features differ in number");
    std::vector<nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>> alive(nb::len(columns));
    std::vector<const T *> from(alive.size());
    for (std::size_t i = 0; i < alive.size(); ++i) {
        require(nb::try_cast(columns[i], alive[i], false), "columns must be adjacent numbers of the type of the rows");
        require(alive[i].shape(0) == out.shape(0), "columns and rows differ in length");
        from[i] = alive[i].data();
    }
    nb::gil_scoped_release unlocked;
    columns_to_rows(from.data(), from.size(), out.shape(0), out.data());
}

template <class T> std::int64_t first_unfit_row(Numbers<T> x, double limit, bool gaps) {
    const std::size_t rows = x.shape(0), columns = x.shape(1), stride = row_stride(x);
    const T *data = x.data();
    nb::gil_scoped_release unlocked;
    const std::size_t found = table<T>().shared.first_unfit_row(data, rows, columns, stride, T(limit), gaps);
    return found < rows ? std::int64_t(found) : -1;
}

template <class T> using Line = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T> double read_all(Line<T> values, std::size_t times) {
    double total = 0;
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < times; ++i) total += double(table<T>().shared.read_all(values.data(), values.shape(0)));
    return total;
}

template <class T> void rewrite_all(Line<T> values, std::size_t times) {
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < times; ++i)
        table<T>().shared.rewrite_all(values.data(), values.shape(0), T(i % 2 ? 0.5 : 2));
}

template <class T> void bind_shared(nb::module_ &m, const char *samples) {
    nb::class_<SampleArrays<T>>(m, samples, "Whole batches of consecutive rows.")
        .def(nb::init<NumbersOrBytes, double, std::size_t, bool, std::optional<Vector>, std::optional<Padded<T>>,
                      std::size_t, std::size_t, std::size_t>(),
             "rows"_a.noconvert(), "factor"_a, "batch_size"_a, "gaps"_a, "shares"_a.noconvert().none(),
             "frame"_a.noconvert().none(), "first"_a = 0, "apart"_a = 1, "every"_a = 1);
    m.def("first_unfit_row", &first_unfit_row<T>, "x"_a.noconvert(), "limit"_a, "gaps"_a,
          "Index of the first row with a magnitude beyond the limit, or with NaN unless gaps are allowed; else -1.");
    m.def("copy_columns", &copy_columns<T>, "columns"_a, "out"_a.noconvert());
    m.def("read_all", &read_all<T>, "values"_a.noconvert(), "times"_a, "For benchmarks: read an array.");
    m.def("rewrite_all", &rewrite_all<T>, "values"_a.noconvert(), "times"_a,
          "For benchmarks: read and write an array.");
}

} // namespace

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false); // a thread that outlives the interpreter keeps references: harmless
    m.doc() =
        "Loops over samples, components and features. Call them through streamgmm.native, which checks arguments.";
    nb::class_<FilterArrays>(m, "Filter", "The two factors of a smoothing matrix.")
        .def(nb::init<Square, Square>(), "along_rows"_a.noconvert(), "along_columns"_a.noconvert());
    nb::class_<ReportArrays>(m, "Report", "Arrays into which steps report.")
        .def(nb::init<Vector, Vector, Counts, Vector, Counts, std::optional<Vector>>(), "losses"_a.noconvert(),
             "max_components"_a.noconvert(), "wins"_a.noconvert(), "received"_a.noconvert(), "terms_read"_a.noconvert(),
             "typical_loss"_a.noconvert().none());
    bind_shared<float>(m, "Samples32");
    bind_shared<double>(m, "Samples64");
    bind_diagonal(m);
    bind_full(m);
    bind_low_rank(m);
    bind_smooth_losses(m);
    m.def("sum_above", &sum_losses_above, "state"_a.noconvert(), "losses"_a.noconvert());
    m.def("average_usage", &average_usage_of, "usage"_a.noconvert(), "wins"_a.noconvert(), "memory"_a, "live"_a);
    m.def("move_weights", &move_weights_of, "weights"_a.noconvert(), "received"_a.noconvert(), "since"_a.noconvert(),
          "total"_a, "rate"_a);
    m.def("upper_median", &upper_median_of, "values"_a.noconvert());
    nb::class_<TallyArrays>(m, "Tally", "What the control of a training keeps of losses.")
        .def(nb::init<Vector, Vector, double, double, bool, double>(), "level"_a.noconvert(), "above"_a.noconvert(),
             "period"_a, "opening"_a, "robust"_a, "farthest"_a);
    m.def("copy_rows", &copy_rows, "values"_a, "out"_a.noconvert());
    m.def("to_responsibilities", &to_responsibilities, "scores"_a.noconvert());
    m.def("widths", &widths, "Vector widths that this machine can run, narrowest first.");
    m.def("width", &width, "The vector width in use.");
    m.def("use_width", &use_width, "name"_a, "Choose a vector width; for tests.");
}
