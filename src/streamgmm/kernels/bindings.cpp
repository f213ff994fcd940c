// The face of the loops towards Python: shapes are checked here once more, memory is lent, the GIL is released.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.h"

using namespace nb::literals;

namespace streamgmm {
#ifdef STREAMGMM_X86
extern const Loops loops_v1, loops_v3, loops_v4;
#else
extern const Loops loops_plain;
#endif
} // namespace streamgmm

namespace {

struct Width {
    const char *name;
    const Loops *loops;
    bool runs_here;
};

const std::vector<Width> &all_widths() {
#ifdef STREAMGMM_X86
    // One by one: compilers that know the levels by name are rare. These are what differs on machines that exist.
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    static const std::vector<Width> found = {
        {"x86-64", &loops_v1, true},
        {"x86-64-v3", &loops_v3, v3},
        {"x86-64-v4", &loops_v4, v4},
    };
#else
    static const std::vector<Width> found = {{"plain", &loops_plain, true}};
#endif
    return found;
}

const Width *widest() {
    const Width *best = nullptr;
    for (const Width &w : all_widths())
        if (w.runs_here) best = &w;
    return best;
}

const Width *current = widest();

template <class T> const Table<T> &loops();
template <> const Table<float> &loops<float>() { return current->loops->single; }
template <> const Table<double> &loops<double>() { return current->loops->twice; }

std::vector<std::string> widths() {
    std::vector<std::string> names;
    for (const Width &w : all_widths())
        if (w.runs_here) names.push_back(w.name);
    return names;
}

void use_width(const std::string &name) {
    for (const Width &w : all_widths())
        if (w.runs_here && name == w.name) {
            current = &w;
            return;
        }
    throw std::invalid_argument("no vector width '" + name + "' on this machine; see widths()");
}

template <class T>
void refresh_log_dets(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, std::size_t features, std::size_t first,
                      std::size_t last) {
    const Model<T> m = model<T>(means, scales, logits, log_dets, features);
    require(first <= last && last <= m.components, "no such components");
    nb::gil_scoped_release unlocked;
    loops<T>().log_dets(m, first, last);
}

// [E11] the smoothed loss and its like, step by step; see annealing.observe.
// INOUT state: samples, loss, max_component, variance, baseline; what is not known yet is NaN.
void smooth_losses(Vector state, Vector losses, Vector max_components, double batch_size, double period, double opening,
                   bool robust, double farthest) {
    require(state.shape(0) == 5 && losses.shape(0) == max_components.shape(0), "reports differ in length");
    double samples = state(0), loss = state(1), top = state(2), variance = state(3), baseline = state(4);
    for (std::size_t t = 0; t < losses.shape(0); ++t) {
        samples += batch_size;
        const double horizon = robust && samples < period ? samples : period;
        const double rate = batch_size < horizon ? batch_size / horizon : 1.0;
        if (loss == loss) {
            double away = losses(t) - loss;
            away = away < -farthest ? -farthest : away > farthest ? farthest : away;
            variance = (1 - rate) * variance + rate * batch_size * (away * away);
        }
        loss = loss == loss ? (1 - rate) * loss + rate * losses(t) : losses(t);
        top = top == top ? (1 - rate) * top + rate * max_components(t) : max_components(t);
        if (baseline != baseline && samples >= opening) baseline = loss;
    }
    state(0) = samples, state(1) = loss, state(2) = top, state(3) = variance, state(4) = baseline;
}

// The arguments that all rules have in common.
template <class T> struct Steps {
    Model<T> m;
    Input<T> x;
    std::size_t count;
    Report report;

    Steps(Rows<T> &means, Rows<T> &scales, Vector &logits, Vector &log_dets, const Data &x, double factor,
          std::size_t batch_size, bool gaps, std::optional<Vector> &shares, Vector &losses, Vector &max_components,
          Counts &wins, Vector &received, Counts &looked, std::optional<Vector> &usual)
        : m(model<T>(means, scales, logits, log_dets, x.shape(1))),
          x(input<T>(x, m.features, factor, shares ? shares->data() : nullptr, gaps)),
          count(batch_size ? x.shape(0) / batch_size : 0),
          report{losses.data(),   max_components.data(), wins.data(),
                 received.data(), looked.data(),         usual ? usual->data() : nullptr} {
        require(!shares || shares->shape(0) == x.shape(0), "shares need one entry a sample");
        require(!usual || usual->shape(0) == 3, "usual losses are three numbers");
        require(batch_size > 0 && x.shape(0) % batch_size == 0, "the samples must be whole batches");
        require(losses.shape(0) == count && max_components.shape(0) == count, "reports need one entry a step");
        require(wins.shape(0) == m.components && received.shape(0) == m.components, "wins need one entry a component");
        require(looked.shape(0) == 1, "looked is one number");
    }

    bool scouts(const Filter &g, std::size_t batch_size, bool scan_all) const {
        return g.identity && batch_size == 1 && !scan_all && count >= scout_from_samples &&
               m.features >= scout_from_features && m.components > 1;
    }
};

template <class T>
void sgd_steps(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, Data x, double factor, std::size_t batch_size,
               bool gaps, std::optional<Vector> shares, Matrix along_rows, Matrix along_columns, double rate, double scale_min, double scale_max, bool scan_all,
               Vector losses, Vector max_components, Counts wins, Vector received, Counts looked, std::optional<Vector> usual) {
    const Steps<T> steps(means, scales, logits, log_dets, x, factor, batch_size, gaps, shares, losses, max_components, wins,
                         received, looked, usual);
    const Filter g = filter(along_rows, along_columns, steps.m.components);
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    Workspace<T> work(steps.m, batch_size, batch_size > 1, steps.scouts(g, batch_size, scan_all), gaps);
    loops<T>().sgd_steps(steps.m, steps.x, steps.count, g, {rate, scale_min, scale_max}, work.scratch,
                         steps.report);
}

template <class T>
Moments<T> moments(const Model<T> &m, Rows<T> &means, Rows<T> &variances, Vector &masses) {
    require(means.shape(0) == m.components && means.shape(1) == m.stride, "moments must be shaped like the means");
    require(variances.shape(0) == m.components && variances.shape(1) == m.stride, "variances must be shaped like the means");
    require(masses.shape(0) == m.components, "masses need one entry a component");
    return {means.data(), variances.data(), masses.data()};
}

template <class T>
void natural_steps(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, Data x, double factor, std::size_t batch_size,
                   bool gaps, std::optional<Vector> shares, Rows<T> variances, Vector counts, Matrix along_rows, Matrix along_columns, double growth, double count_max,
                   double scale_min, double scale_max, bool hold_scales, bool scan_all, Vector losses, Vector max_components,
                   Counts wins, Vector received, Counts looked, std::optional<Vector> usual) {
    const Steps<T> steps(means, scales, logits, log_dets, x, factor, batch_size, gaps, shares, losses, max_components, wins,
                         received, looked, usual);
    const Filter g = filter(along_rows, along_columns, steps.m.components);
    const Moments<T> state = moments<T>(steps.m, means, variances, counts);
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    Workspace<T> work(steps.m, batch_size, batch_size > 1, steps.scouts(g, batch_size, scan_all), gaps);
    loops<T>().natural_steps(steps.m, state, steps.x, steps.count, g,
                             {growth, count_max, scale_min, scale_max, hold_scales}, work.scratch, steps.report);
}

template <class T>
void em_steps(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, Data x, double factor, std::size_t batch_size,
              bool gaps, std::optional<Vector> shares, Rows<T> moment_means, Rows<T> variances, Vector masses, double rate, double exponent, double rate_min,
              std::size_t first_step, double scale_min, double scale_max, bool accumulate, Vector losses,
              Vector max_components, Counts wins, Vector received, Counts looked, std::optional<Vector> usual) {
    const Steps<T> steps(means, scales, logits, log_dets, x, factor, batch_size, gaps, shares, losses, max_components, wins,
                         received, looked, usual);
    const Moments<T> state = moments<T>(steps.m, moment_means, variances, masses);
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    Workspace<T> work(steps.m, batch_size, batch_size > 1, false, gaps);
    loops<T>().em_steps(steps.m, state, steps.x, steps.count,
                        {rate, exponent, rate_min, first_step, scale_min, scale_max, accumulate}, work.scratch,
                        steps.report);
}

constexpr std::size_t score_rows = 192; // scored together: so many share what is read of the parameters

template <class T>
void score(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, Data x, double factor,
           std::optional<nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>> scores,
           std::optional<Vector> log_likelihood, std::optional<Vector> max_component, std::optional<Counts> winner) {
    const Model<T> m = model<T>(means, scales, logits, log_dets, x.shape(1));
    const Input<T> samples = input<T>(x, m.features, factor);
    const std::size_t rows = x.shape(0);
    require(!scores || (scores->shape(0) == rows && scores->shape(1) == m.components), "scores must be rows x components");
    require(!log_likelihood || log_likelihood->shape(0) == rows, "log_likelihood needs one entry a row");
    require(!max_component || max_component->shape(0) == rows, "max_component needs one entry a row");
    require(!winner || winner->shape(0) == rows, "winner needs one entry a row");
    const Answers out = {scores ? scores->data() : nullptr, log_likelihood ? log_likelihood->data() : nullptr,
                         max_component ? max_component->data() : nullptr, winner ? winner->data() : nullptr};
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    Workspace<T> work(m, rows < score_rows ? (rows ? rows : 1) : score_rows, true, false, true, false);
    loops<T>().score(m, samples, rows, work.scratch, out);
}

template <class T>
void merge_rows(Rows<T> means, Rows<T> second, Rows<T> start_means, Rows<T> start_second, std::vector<Rows<T>> replica_means,
                std::vector<Rows<T>> replica_second, Matrix shares, bool moments, double most, std::size_t first,
                std::size_t last) {
    const std::size_t k = means.shape(0), stride = means.shape(1);
    auto alike = [&](const Rows<T> &a) { return a.shape(0) == k && a.shape(1) == stride; };
    require(alike(second) && alike(start_means) && alike(start_second), "arrays to merge differ in shape");
    require(!replica_means.empty() && replica_means.size() == replica_second.size(), "replicas need two arrays each");
    require(shares.shape(0) == k && shares.shape(1) == replica_means.size(), "shares must be components x replicas");
    require(first <= last && last <= k, "no such components");
    std::vector<const T *> a, b;
    for (const Rows<T> &r : replica_means) require(alike(r), "a replica differs in shape"), a.push_back(r.data());
    for (const Rows<T> &r : replica_second) require(alike(r), "a replica differs in shape"), b.push_back(r.data());
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    loops<T>().merge_rows({start_means.data(), start_second.data(), a.data(), b.data(), shares.data(), a.size(), moments, most},
                          stride, first, last, means.data(), second.data());
}

template <class T>
void rescale(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, Rows<T> variances, std::size_t features,
             double scale_min, double scale_max, std::size_t first, std::size_t last) {
    const Model<T> m = model<T>(means, scales, logits, log_dets, features);
    require(variances.shape(0) == m.components && variances.shape(1) == m.stride, "variances must be shaped like the means");
    require(first <= last && last <= m.components, "no such components");
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    loops<T>().rescale(m, variances.data(), scale_min, scale_max, first, last);
}

// Row number of the first value that is not finite or beyond `limit`, or -1.
template <class T> std::int64_t first_unfit_row(Samples<T> x, double limit, bool gaps) {
    const std::size_t rows = x.shape(0), columns = x.shape(1), stride = row_stride(x, columns);
    const T *data = x.data();
    nb::gil_scoped_release unlocked;
    const std::size_t found = loops<T>().first_unfit_row(data, rows, columns, stride, T(limit), gaps);
    return found < rows ? std::int64_t(found) : -1;
}

// Values of equal length, one after the other; all but finding them happens without the interpreter's lock.
void join(const nb::list &values, nb::ndarray<std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    const std::size_t rows = out.shape(0), width = out.shape(1);
    require(nb::len(values) == rows, "rows and values differ in number");
    std::vector<const char *> from;
    from.reserve(rows);
    for (nb::handle value : values) {
        const nb::bytes bytes = nb::cast<nb::bytes>(value);
        require(bytes.size() == width, "values differ in length");
        from.push_back(bytes.c_str());
    }
    std::uint8_t *to = out.data();
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(to + i * width, from[i], width);
}

template <class T> using Line = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T> double read_all(Line<T> values, std::size_t times) {
    double total = 0;
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < times; ++i) total += double(loops<T>().read_all(values.data(), values.shape(0)));
    return total;
}

template <class T> void rewrite_all(Line<T> values, std::size_t times) {
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < times; ++i) loops<T>().rewrite_all(values.data(), values.shape(0), T(i % 2 ? 0.5 : 2));
}

template <class T> void bind(nb::module_ &m) {
    m.def("refresh_log_dets", &refresh_log_dets<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "features"_a, "first"_a, "last"_a);
    m.def("sgd_steps", &sgd_steps<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "batch_size"_a, "gaps"_a,
          "shares"_a.noconvert().none(), "along_rows"_a.noconvert(), "along_columns"_a.noconvert(), "rate"_a, "scale_min"_a, "scale_max"_a, "scan_all"_a, "losses"_a.noconvert(),
          "max_components"_a.noconvert(), "wins"_a.noconvert(), "received"_a.noconvert(), "looked"_a.noconvert(),
          "usual"_a.noconvert().none());
    m.def("natural_steps", &natural_steps<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "batch_size"_a, "gaps"_a,
          "shares"_a.noconvert().none(), "variances"_a.noconvert(), "counts"_a.noconvert(),
          "along_rows"_a.noconvert(), "along_columns"_a.noconvert(), "growth"_a, "count_max"_a, "scale_min"_a, "scale_max"_a,
          "hold_scales"_a, "scan_all"_a, "losses"_a.noconvert(), "max_components"_a.noconvert(), "wins"_a.noconvert(),
          "received"_a.noconvert(), "looked"_a.noconvert(), "usual"_a.noconvert().none());
    m.def("em_steps", &em_steps<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "batch_size"_a, "gaps"_a,
          "shares"_a.noconvert().none(), "moment_means"_a.noconvert(),
          "variances"_a.noconvert(), "masses"_a.noconvert(), "rate"_a, "exponent"_a, "rate_min"_a, "first_step"_a,
          "scale_min"_a, "scale_max"_a, "accumulate"_a, "losses"_a.noconvert(), "max_components"_a.noconvert(),
          "wins"_a.noconvert(), "received"_a.noconvert(), "looked"_a.noconvert(), "usual"_a.noconvert().none());
    m.def("score", &score<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "scores"_a.noconvert().none(),
          "log_likelihood"_a.noconvert().none(), "max_component"_a.noconvert().none(), "winner"_a.noconvert().none());
    m.def("merge_rows", &merge_rows<T>, "means"_a.noconvert(), "second"_a.noconvert(), "start_means"_a.noconvert(),
          "start_second"_a.noconvert(), "replica_means"_a.noconvert(), "replica_second"_a.noconvert(), "shares"_a.noconvert(),
          "moments"_a, "most"_a, "first"_a, "last"_a);
    m.def("rescale", &rescale<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "variances"_a.noconvert(), "features"_a, "scale_min"_a, "scale_max"_a, "first"_a,
          "last"_a);
    m.def("read_all", &read_all<T>, "values"_a.noconvert(), "times"_a, "Yardstick: reads an array so many times.");
    m.def("rewrite_all", &rewrite_all<T>, "values"_a.noconvert(), "times"_a,
          "Yardstick: reads and writes an array so many times.");
    m.def("first_unfit_row", &first_unfit_row<T>, "x"_a.noconvert(), "limit"_a, "gaps"_a);
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "Loops over samples, components and features. Call them through streamgmm.kernels, which checks arguments.";
    bind<float>(m);
    bind<double>(m);
    m.def("join", &join, "values"_a, "out"_a.noconvert());
    m.def("smooth_losses", &smooth_losses, "state"_a.noconvert(), "losses"_a.noconvert(), "max_components"_a.noconvert(),
          "batch_size"_a, "period"_a, "opening"_a, "robust"_a, "farthest"_a);
    m.def("widths", &widths, "Vector widths that this machine can run, narrowest first.");
    m.def("width", [] { return std::string(current->name); }, "The vector width in use.");
    m.def("use_width", &use_width, "name"_a, "Chooses a vector width; meant for tests.");
}
