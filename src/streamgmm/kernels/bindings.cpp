// The face of the loops towards Python: shapes are checked here once more, memory is lent, the GIL is released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef STREAMGMM_X86
#include <xmmintrin.h>
#endif

#include "types.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace streamgmm;

namespace streamgmm {
#ifdef STREAMGMM_X86
extern const Loops loops_v1, loops_v3, loops_v4;
#else
extern const Loops loops_plain;
#endif
} // namespace streamgmm

namespace {

constexpr std::size_t pack_bytes = 128;

struct Width {
    const char *name;
    const Loops *loops;
    bool runs_here;
};

const std::vector<Width> &all_widths() {
#ifdef STREAMGMM_X86
    static const std::vector<Width> found = {
        {"x86-64", &loops_v1, true},
        {"x86-64-v3", &loops_v3, bool(__builtin_cpu_supports("x86-64-v3"))},
        {"x86-64-v4", &loops_v4, bool(__builtin_cpu_supports("x86-64-v4"))},
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

// Means of features that are always zero decay towards zero for ever. Numbers too small for the normal format cost a
// hundred times as much as others on many machines, so while a loop runs they count as zero.
class TinyIsZero {
#if defined(STREAMGMM_X86)
    unsigned saved = _mm_getcsr();

  public:
    TinyIsZero() { _mm_setcsr(saved | 0x8040); }
    ~TinyIsZero() { _mm_setcsr(saved); }
#elif defined(__aarch64__)
    std::uint64_t saved;

  public:
    TinyIsZero() {
        asm volatile("mrs %0, fpcr" : "=r"(saved));
        asm volatile("msr fpcr, %0" ::"r"(saved | (std::uint64_t(1) << 24)));
    }
    ~TinyIsZero() { asm volatile("msr fpcr, %0" ::"r"(saved)); }
#else
  public:
    TinyIsZero() {}
#endif
};

template <class T> using Rows = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Samples = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
using Data = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>; // numbers of the model's type, or bytes
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool holds, const char *what) {
    if (!holds) throw std::invalid_argument(what);
}

template <class T> Model<T> model(Rows<T> &means, Rows<T> &scales, Vector &logits, Vector &log_dets, std::size_t features) {
    const std::size_t k = means.shape(0), stride = means.shape(1);
    require(k > 0 && features > 0, "a mixture needs a component and a feature");
    require(stride * sizeof(T) % pack_bytes == 0 && stride >= features && stride - features < pack_bytes / sizeof(T),
            "rows of means must be padded to whole packs of 128 bytes");
    require(scales.shape(0) == k && scales.shape(1) == stride, "means and scales differ in shape");
    require(logits.shape(0) == k && log_dets.shape(0) == k, "logits and log_dets need one entry a component");
    return {means.data(), scales.data(), logits.data(), log_dets.data(), k, features, stride};
}

template <class Array> std::size_t row_stride(const Array &x, std::size_t features) {
    require(x.shape(1) == features, "samples and mixture differ in their number of features");
    require(x.shape(0) == 0 || features == 1 || x.stride(1) == 1, "the features of a sample must lie side by side");
    require(x.shape(0) < 2 || x.stride(0) >= 0, "rows must not run backwards");
    return x.shape(0) < 2 ? features : std::size_t(x.stride(0));
}

template <class T> Input<T> input(const Data &x, std::size_t features, double factor) {
    const bool bytes = x.dtype() == nb::dtype<std::uint8_t>();
    require(bytes || x.dtype() == nb::dtype<T>(), "samples must be bytes or of the type of the means");
    require(bytes || factor == 1, "only bytes take a factor");
    const std::size_t stride = row_stride(x, features);
    if (bytes) return {nullptr, static_cast<const std::uint8_t *>(x.data()), T(factor), stride};
    return {static_cast<const T *>(x.data()), nullptr, T(1), stride};
}

// A pointer into `room` at the start of a cache line, with `count` numbers behind it.
template <class T> T *aligned(std::vector<T> &room, std::size_t count) {
    room.resize(count + pack_bytes / sizeof(T));
    const auto address = reinterpret_cast<std::uintptr_t>(room.data());
    return room.data() + (pack_bytes - address % pack_bytes) % pack_bytes / sizeof(T);
}

// Samples and features from which it pays to compare components on some features first.
constexpr std::size_t scout_from_samples = 64, scout_from_features = 128;

// Owns what Scratch points to.
template <class T> struct Workspace {
    std::vector<T> samples, shifted, copies;
    std::vector<double> numbers;
    std::vector<std::size_t> winners;
    std::vector<std::uint32_t> order;
    Scratch<T> scratch;

    Workspace(const Model<T> &m, std::size_t batch, bool many, bool scouts = false) {
        const std::size_t k = m.components, padded = (k + 15) / 16 * 16;
        std::size_t sum_features = many ? 16384 / k / 32 * 32 : 0;
        if (many) sum_features = sum_features < 32 ? 32 : sum_features > 256 ? 256 : sum_features;
        winners.resize(batch);
        double *at = aligned(numbers, batch * k + padded + 4 * k + 3 * k * sum_features + 2 * 1024);
        auto take = [&at](std::size_t count) { return at += count, at - count; };
        double *scores = take(batch * k), *weights = take(padded), *log_weights = take(k), *received = take(k),
               *pair = take(2 * k), *sums = take(3 * k * sum_features);
        T *rows = aligned(samples, batch * m.stride), *products = aligned(shifted, many ? k * m.stride : 0);
        scratch = {rows, products, scores,         weights, log_weights,  received,
                   pair, sums,     winners.data(), batch,   sum_features, scout(m, scouts)};
    }

  private:
    // An eighth of the features for each level of comparison.
    Scout<T> scout(const Model<T> &m, bool wanted) {
        if (!wanted) return {};
        const std::size_t lanes = pack_bytes / sizeof(T), packs = m.stride / 6 / lanes;
        const std::size_t level = (packs ? packs : 1) * lanes, features = scout_levels * level, size = m.components * features;
        order.resize(features + m.components);
        T *at = aligned(copies, 2 * size + features + m.stride);
        return {at, at + size, at + 2 * size, at + 2 * size + features, order.data(), order.data() + features,
                level, 0, 0, true};
    }
};

bool is_identity(const Matrix &m) {
    for (std::size_t i = 0; i < m.shape(0); ++i)
        for (std::size_t j = 0; j < m.shape(1); ++j)
            if (m(i, j) != (i == j ? 1.0 : 0.0)) return false;
    return true;
}

Filter filter(const Matrix &along_rows, const Matrix &along_columns, std::size_t components) {
    const std::size_t r = along_rows.shape(0), c = along_columns.shape(0);
    require(along_rows.shape(1) == r && along_columns.shape(1) == c, "the filters must be square");
    require(r * c == components, "the grid must have one cell for each component");
    return {along_rows.data(), along_columns.data(), r, c, is_identity(along_rows) && is_identity(along_columns)};
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
          std::size_t batch_size, Vector &losses, Vector &max_components, Counts &wins, Vector &received)
        : m(model<T>(means, scales, logits, log_dets, x.shape(1))), x(input<T>(x, m.features, factor)),
          count(batch_size ? x.shape(0) / batch_size : 0), report{losses.data(), max_components.data(), wins.data(),
                                                                   received.data()} {
        require(batch_size > 0 && x.shape(0) % batch_size == 0, "the samples must be whole batches");
        require(losses.shape(0) == count && max_components.shape(0) == count, "reports need one entry a step");
        require(wins.shape(0) == m.components && received.shape(0) == m.components, "wins need one entry a component");
    }

    bool scouts(const Filter &g, std::size_t batch_size, bool scan_all) const {
        return g.identity && batch_size == 1 && !scan_all && count >= scout_from_samples &&
               m.features >= scout_from_features && m.components > 1;
    }
};

template <class T>
void sgd_steps(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, Data x, double factor, std::size_t batch_size,
               Matrix along_rows, Matrix along_columns, double rate, double scale_min, double scale_max, bool scan_all,
               Vector losses, Vector max_components, Counts wins, Vector received) {
    const Steps<T> steps(means, scales, logits, log_dets, x, factor, batch_size, losses, max_components, wins, received);
    const Filter g = filter(along_rows, along_columns, steps.m.components);
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    Workspace<T> work(steps.m, batch_size, batch_size > 1, steps.scouts(g, batch_size, scan_all));
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
                   Rows<T> variances, Vector counts, Matrix along_rows, Matrix along_columns, double growth, double count_max,
                   double scale_min, double scale_max, bool hold_scales, bool scan_all, Vector losses, Vector max_components,
                   Counts wins, Vector received) {
    const Steps<T> steps(means, scales, logits, log_dets, x, factor, batch_size, losses, max_components, wins, received);
    const Filter g = filter(along_rows, along_columns, steps.m.components);
    const Moments<T> state = moments<T>(steps.m, means, variances, counts);
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    Workspace<T> work(steps.m, batch_size, batch_size > 1, steps.scouts(g, batch_size, scan_all));
    loops<T>().natural_steps(steps.m, state, steps.x, steps.count, g,
                             {growth, count_max, scale_min, scale_max, hold_scales}, work.scratch, steps.report);
}

template <class T>
void em_steps(Rows<T> means, Rows<T> scales, Vector logits, Vector log_dets, Data x, double factor, std::size_t batch_size,
              Rows<T> moment_means, Rows<T> variances, Vector masses, double rate, double exponent, double rate_min,
              std::size_t first_step, double scale_min, double scale_max, bool accumulate, Vector losses,
              Vector max_components, Counts wins, Vector received) {
    const Steps<T> steps(means, scales, logits, log_dets, x, factor, batch_size, losses, max_components, wins, received);
    const Moments<T> state = moments<T>(steps.m, moment_means, variances, masses);
    nb::gil_scoped_release unlocked;
    TinyIsZero mode;
    Workspace<T> work(steps.m, batch_size, batch_size > 1);
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
    Workspace<T> work(m, rows < score_rows ? (rows ? rows : 1) : score_rows, true);
    loops<T>().score(m, samples, rows, work.scratch, out);
}

template <class T>
void merge_rows(Rows<T> means, Rows<T> second, Rows<T> start_means, Rows<T> start_second, std::vector<Rows<T>> replica_means,
                std::vector<Rows<T>> replica_second, Matrix shares, bool moments, std::size_t first, std::size_t last) {
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
    loops<T>().merge_rows({start_means.data(), start_second.data(), a.data(), b.data(), shares.data(), a.size(), moments},
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
template <class T> std::int64_t first_unfit_row(Samples<T> x, double limit) {
    const std::size_t rows = x.shape(0), columns = x.shape(1), stride = row_stride(x, columns);
    const T *data = x.data();
    nb::gil_scoped_release unlocked;
    const std::size_t found = loops<T>().first_unfit_row(data, rows, columns, stride, T(limit));
    return found < rows ? std::int64_t(found) : -1;
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
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "batch_size"_a, "along_rows"_a.noconvert(),
          "along_columns"_a.noconvert(), "rate"_a, "scale_min"_a, "scale_max"_a, "scan_all"_a, "losses"_a.noconvert(),
          "max_components"_a.noconvert(), "wins"_a.noconvert(), "received"_a.noconvert());
    m.def("natural_steps", &natural_steps<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "batch_size"_a, "variances"_a.noconvert(), "counts"_a.noconvert(),
          "along_rows"_a.noconvert(), "along_columns"_a.noconvert(), "growth"_a, "count_max"_a, "scale_min"_a, "scale_max"_a,
          "hold_scales"_a, "scan_all"_a, "losses"_a.noconvert(), "max_components"_a.noconvert(), "wins"_a.noconvert(),
          "received"_a.noconvert());
    m.def("em_steps", &em_steps<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "batch_size"_a, "moment_means"_a.noconvert(),
          "variances"_a.noconvert(), "masses"_a.noconvert(), "rate"_a, "exponent"_a, "rate_min"_a, "first_step"_a,
          "scale_min"_a, "scale_max"_a, "accumulate"_a, "losses"_a.noconvert(), "max_components"_a.noconvert(),
          "wins"_a.noconvert(), "received"_a.noconvert());
    m.def("score", &score<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "x"_a.noconvert(), "factor"_a, "scores"_a.noconvert().none(),
          "log_likelihood"_a.noconvert().none(), "max_component"_a.noconvert().none(), "winner"_a.noconvert().none());
    m.def("merge_rows", &merge_rows<T>, "means"_a.noconvert(), "second"_a.noconvert(), "start_means"_a.noconvert(),
          "start_second"_a.noconvert(), "replica_means"_a.noconvert(), "replica_second"_a.noconvert(), "shares"_a.noconvert(),
          "moments"_a, "first"_a, "last"_a);
    m.def("rescale", &rescale<T>, "means"_a.noconvert(), "scales"_a.noconvert(), "logits"_a.noconvert(),
          "log_dets"_a.noconvert(), "variances"_a.noconvert(), "features"_a, "scale_min"_a, "scale_max"_a, "first"_a,
          "last"_a);
    m.def("read_all", &read_all<T>, "values"_a.noconvert(), "times"_a, "Yardstick: reads an array so many times.");
    m.def("rewrite_all", &rewrite_all<T>, "values"_a.noconvert(), "times"_a,
          "Yardstick: reads and writes an array so many times.");
    m.def("first_unfit_row", &first_unfit_row<T>, "x"_a.noconvert(), "limit"_a);
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "Loops over samples, components and features. Call them through streamgmm.kernels, which checks arguments.";
    bind<float>(m);
    bind<double>(m);
    m.def("smooth_losses", &smooth_losses, "state"_a.noconvert(), "losses"_a.noconvert(), "max_components"_a.noconvert(),
          "batch_size"_a, "period"_a, "opening"_a, "robust"_a, "farthest"_a);
    m.def("widths", &widths, "Vector widths that this machine can run, narrowest first.");
    m.def("width", [] { return std::string(current->name); }, "The vector width in use.");
    m.def("use_width", &use_width, "name"_a, "Chooses a vector width; meant for tests.");
}
