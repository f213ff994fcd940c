// Arrays of Python as the loops take them: views that were looked at, and work space.
#pragma once
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

#ifdef STREAMGMM_X86
#include <xmmintrin.h>
#endif

#include "types.h"

namespace nb = nanobind;
using namespace streamgmm;

namespace {

constexpr std::size_t pack_bytes = 128;

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

template <class T>
Input<T> input(const Data &x, std::size_t features, double factor, const double *shares = nullptr, bool gaps = false) {
    const bool bytes = x.dtype() == nb::dtype<std::uint8_t>();
    require(bytes || x.dtype() == nb::dtype<T>(), "samples must be bytes or of the type of the means");
    require(bytes || factor == 1, "only bytes take a factor");
    const std::size_t stride = row_stride(x, features);
    if (bytes) return {nullptr, static_cast<const std::uint8_t *>(x.data()), T(factor), stride, shares, false};
    return {static_cast<const T *>(x.data()), nullptr, T(1), stride, shares, gaps};
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
    std::vector<T> samples, shifted, known, copies;
    std::vector<double> numbers;
    std::vector<std::size_t> winners;
    std::vector<std::uint32_t> order;
    Scratch<T> scratch;

    Workspace(const Model<T> &m, std::size_t batch, bool many, bool scouts, bool gaps, bool learns = true) {
        const std::size_t k = m.components, padded = (k + 15) / 16 * 16;
        std::size_t sum_features = many ? 4096 / k / 32 * 32 : 0;
        if (many) sum_features = sum_features < 32 ? 32 : sum_features > 256 ? 256 : sum_features;
        winners.resize(batch);
        double *at = aligned(numbers, batch * (k + 1) + padded + 4 * k + 4 * k * sum_features + 2 * 1024);
        auto take = [&at](std::size_t count) { return at += count, at - count; };
        double *scores = take(batch * k), *weights = take(padded), *log_weights = take(k), *received = take(k),
               *pair = take(2 * k), *shares = take(batch), *sums = take(4 * k * sum_features + 2 * 1024);
        const std::size_t held = learns ? batch * m.stride : m.stride;
        T *rows = aligned(samples, held), *products = aligned(shifted, many ? (k + 1) * m.stride : 0);
        T *present = gaps ? aligned(known, held + 2 * m.stride) : rows, *before = gaps ? present + held : rows;
        scratch = {rows, products, scores,  weights, log_weights, received,     pair,  sums,
                   winners.data(), shares, present, before, batch, sum_features, false, scout(m, scouts)};
    }

  private:
    // A sixth of the features for each level of comparison.
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

} // namespace
