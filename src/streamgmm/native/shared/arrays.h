// NumPy arrays as structs: each checks shapes once, keeps its arrays alive and holds the plain view that the loops
// take.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "annealing.h"
#include "types.h"

#if STREAMGMM_X86
#include <xmmintrin.h>
#endif

namespace nb = nanobind;

namespace streamgmm {

template <class T> using Padded = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T> using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table2d = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Numbers = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
using NumbersOrBytes = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using Vector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Square = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

inline void require(bool holds, const char *otherwise) {
    if (!holds) throw std::invalid_argument(otherwise);
}

// Means of features that are always zero decay towards zero for ever, and subnormal numbers are a hundred times slower
// than others on many machines. While a loop runs, they are flushed to zero.
class FlushSubnormals {
#if STREAMGMM_X86
    unsigned saved = _mm_getcsr();

  public:
    FlushSubnormals() { _mm_setcsr(saved | 0x8040); }
    ~FlushSubnormals() { _mm_setcsr(saved); }
#elif defined(__aarch64__)
    std::uint64_t saved;

  public:
    FlushSubnormals() {
        asm volatile("mrs %0, fpcr" : "=r"(saved));
        asm volatile("msr fpcr, %0" ::"r"(saved | (std::uint64_t(1) << 24)));
    }
    ~FlushSubnormals() { asm volatile("msr fpcr, %0" ::"r"(saved)); }
#else
  public:
    FlushSubnormals() {}
#endif
};

// While a loop runs: other Python threads may run, and subnormal numbers are zero.
struct LoopRuns {
    nb::gil_scoped_release unlocked;
    FlushSubnormals mode;
};

// Distance between rows whose features are adjacent.
template <class Array> std::size_t row_stride(const Array &x) {
    require(x.shape(0) == 0 || x.shape(1) == 1 || x.stride(1) == 1, "the features of a sample must be adjacent");
    require(x.shape(0) < 2 || x.stride(0) >= 0, "the stride between rows must not be negative");
    return x.shape(0) < 2 ? x.shape(1) : std::size_t(x.stride(0));
}

// Whether an array is one row that loops can read as it is and learn: adjacent numbers within the limit, or NaN where
// there may be gaps, but not in all features.
template <class T> bool is_plain_row(const Numbers<T> &x, std::size_t features, double limit, bool gaps) {
    if (x.shape(0) != 1 || x.shape(1) != features || (features > 1 && x.stride(1) != 1)) return false;
    if (reinterpret_cast<std::uintptr_t>(x.data()) % alignof(T)) return false;
    const T *row = x.data(), most = T(limit);
    bool fit = true, any = false;
    for (std::size_t d = 0; d < features; ++d) {
        const bool known = row[d] <= most && row[d] >= -most;
        any |= known, fit &= known || (gaps && row[d] != row[d]);
    }
    return fit && any;
}

// Whole batches of consecutive rows.
template <class T> struct SampleArrays {
    NumbersOrBytes rows;            // IN [samples, features]
    std::optional<Vector> shares;   // IN [samples]
    std::optional<Padded<T>> frame; // INOUT [frame_rows, features]: the rows of Frame
    std::size_t batch_size, steps;
    Input<T> input;

    SampleArrays(NumbersOrBytes x, double factor, std::size_t batch, bool gaps, std::optional<Vector> shares_of_rows,
                 std::optional<Padded<T>> frame_of_rows, std::size_t first, std::size_t apart, std::size_t every)
        : rows(std::move(x)), shares(std::move(shares_of_rows)), frame(std::move(frame_of_rows)), batch_size(batch) {
        const bool bytes = rows.dtype() == nb::dtype<std::uint8_t>();
        require(bytes || rows.dtype() == nb::dtype<T>(), "samples must be bytes or have the dtype of the means");
        require(bytes || factor == 1, "only bytes take a factor");
        require(batch > 0 && rows.shape(0) % batch == 0, "the samples must be whole batches");
        require(!shares || shares->shape(0) == rows.shape(0), "shares must have one entry per sample");
        steps = rows.shape(0) / batch;
        const std::size_t stride = row_stride(rows);
        const double *weights = shares ? shares->data() : nullptr;
        require(!frame || (frame->shape(0) == frame_rows && frame->shape(1) == rows.shape(1)),
                "a frame must have the shape (12, features)");
        require(every > 0, "one step in `every` is summed: it must be positive");
        Frame<T> place = {};
        if (frame) {
            T *at = frame->data();
            const std::size_t d = frame->shape(1);
            place = {at,         at + d,     at + 2 * d,  at + 3 * d,  at + 4 * d, at + 5 * d, at + 6 * d, at + 7 * d,
                     at + 8 * d, at + 9 * d, at + 10 * d, at + 11 * d, first,      apart,      every};
        }
        if (bytes)
            input = {nullptr, static_cast<const std::uint8_t *>(rows.data()), T(factor), stride, weights, false, place};
        else
            input = {static_cast<const T *>(rows.data()), nullptr, T(1), stride, weights, gaps, place};
    }
};

inline bool is_identity(const Square &m) {
    for (std::size_t i = 0; i < m.shape(0); ++i)
        for (std::size_t j = 0; j < m.shape(1); ++j)
            if (m(i, j) != (i == j ? 1.0 : 0.0)) return false;
    return true;
}

// The two factors of the smoothing matrix.
struct FilterArrays {
    Square along_rows, along_columns; // IN [rows, rows], IN [columns, columns]
    Filter filter;

    FilterArrays(Square rows, Square columns) : along_rows(std::move(rows)), along_columns(std::move(columns)) {
        const std::size_t r = along_rows.shape(0), c = along_columns.shape(0);
        require(along_rows.shape(1) == r && along_columns.shape(1) == c, "the filters must be square");
        filter = {along_rows.data(), along_columns.data(), r, c, is_identity(along_rows) && is_identity(along_columns)};
    }

    const Filter &for_components(std::size_t components) const {
        require(filter.rows * filter.columns == components, "the grid must have one cell for each component");
        return filter;
    }
};

// What steps report; see Report.
struct ReportArrays {
    Vector losses, max_components;
    Counts wins;
    Vector received;
    Counts terms_read;
    std::optional<Vector> typical_loss;
    Report report;

    ReportArrays(Vector losses_, Vector max_components_, Counts wins_, Vector received_, Counts terms_read_,
                 std::optional<Vector> typical_loss_)
        : losses(std::move(losses_)), max_components(std::move(max_components_)), wins(std::move(wins_)),
          received(std::move(received_)), terms_read(std::move(terms_read_)), typical_loss(std::move(typical_loss_)) {
        require(losses.shape(0) == max_components.shape(0), "losses and max_components differ in length");
        require(wins.shape(0) == received.shape(0), "wins and received differ in length");
        require(terms_read.shape(0) == 1, "terms_read must have one entry");
        require(!typical_loss || typical_loss->shape(0) == typical_numbers, "typical_loss must have five entries");
        report = {losses.data(),   max_components.data(), wins.data(),
                  received.data(), terms_read.data(),     typical_loss ? typical_loss->data() : nullptr};
    }

    const Report &for_steps(std::size_t steps, std::size_t components) const {
        require(losses.shape(0) == steps, "losses must have one entry per step");
        require(wins.shape(0) == components, "wins must have one entry per component");
        return report;
    }
};

// What the control keeps of losses; see annealing.h.
struct TallyArrays {
    Vector level, above; // INOUT [5], INOUT [4]
    LossSmoothing smoothing;

    TallyArrays(Vector level_, Vector above_, double period, double opening, bool robust, double farthest)
        : level(std::move(level_)), above(std::move(above_)), smoothing{1, period, opening, robust, farthest} {
        require(level.shape(0) == 5 && above.shape(0) == 4, "level must have five entries, above four");
        require(period >= 1, "a period must have at least one sample");
    }

    // Samples that are left until the next check: a whole period if one is due or nothing is learned yet.
    std::size_t left() const {
        const auto samples = std::size_t(level.data()[0]), period = std::size_t(smoothing.period);
        return period - samples % period;
    }

    // Takes in what steps of one sample report; returns whether a check is due.
    bool add(const double *losses, const double *tops, std::size_t steps) const {
        const bool due = steps == left();
        smooth_losses(level.data(), losses, tops, steps, smoothing);
        sum_above(above.data(), losses, steps);
        return due;
    }
};

// Where scores go; null where not wanted.
struct AnswerArrays {
    std::optional<Table2d> scores;
    std::optional<Vector> log_likelihood, max_component;
    std::optional<Counts> winner;

    Answers for_rows(std::size_t rows, std::size_t components) const {
        require(!scores || (scores->shape(0) == rows && scores->shape(1) == components),
                "scores must have the shape (rows, components)");
        require(!log_likelihood || log_likelihood->shape(0) == rows, "log_likelihood must have one entry per row");
        require(!max_component || max_component->shape(0) == rows, "max_component must have one entry per row");
        require(!winner || winner->shape(0) == rows, "winner must have one entry per row");
        return {scores ? scores->data() : nullptr, log_likelihood ? log_likelihood->data() : nullptr,
                max_component ? max_component->data() : nullptr, winner ? winner->data() : nullptr};
    }
};

// What a kind that couples features has learned, apart from its statistics.
template <class T> struct LearnedArrays {
    Vector masses;                  // INOUT [components]
    Column<T> pending;              // INOUT [components]
    std::optional<Vector> evidence; // INOUT [components]
    std::optional<Padded<T>> prior; // IN [4, stride]

    // Makes a kind learn into these arrays.
    void attach(Coupled<T> &kind) const {
        const std::size_t k = kind.components;
        require(masses.shape(0) == k && pending.shape(0) == k, "masses and pending must have one entry per component");
        require(evidence.has_value() == prior.has_value(), "a prior needs evidence, and evidence a prior");
        require(!evidence || evidence->shape(0) == k, "evidence must have one entry per component");
        require(!prior || (prior->shape(0) == 4 && prior->shape(1) == kind.stride),
                "a prior must have four rows like those of the means");
        kind.masses = masses.data(), kind.pending = pending.data();
        kind.evidence = evidence ? evidence->data() : nullptr;
        kind.prior = prior ? prior->data() : nullptr;
    }
};

} // namespace streamgmm
