// One object of loops: compiled with -DSTREAMGMM_WIDTH=<bytes> -DSTREAMGMM_TABLE=<name> and the flags of one machine.
#include "expectation.h"
#include "merging.h"
#include "natural.h"
#include "sgd.h"
#include "yardstick.h"

namespace {

template <class T> void refresh_log_dets(Model<T> m, std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) m.log_dets[k] = log_det(m.scales + k * m.stride, m.stride);
}

template <class T>
void score(Model<T> m, Input<T> x, std::size_t rows, Scratch<T> scratch, Answers out) {
    softmax(m.logits, m.components, scratch.weights, scratch.log_weights);
    shift(m, scratch.shifted);
    for (std::size_t done = 0; done < rows; done += scratch.batch) {
        const std::size_t count = rows - done < scratch.batch ? rows - done : scratch.batch;
        double *scores = out.scores ? out.scores + done * m.components : scratch.scores;
        score_many(m, x, done, m.features, count, scratch.shifted, scratch.log_weights, scores);
        for (std::size_t n = 0; n < count; ++n) {
            double *row = scores + n * m.components;
            if (row[0] <= score_at(m, scratch.log_weights, 0, distance_max<T>)) { // beyond all bounds, or not a number
                take_row(x, done + n, m.features, m.stride, scratch.samples);
                if (find_gaps(scratch.samples, scratch.present, m.stride))
                    score_known(m, scratch.samples, scratch.present, scratch.log_weights, row);
            }
            double total;
            if (out.log_likelihood) out.log_likelihood[done + n] = exponentials(row, m.components, scratch.weights, &total);
            const std::size_t best = argmax(row, m.components);
            if (out.max_component) out.max_component[done + n] = row[best];
            if (out.winner) out.winner[done + n] = std::int64_t(best);
        }
    }
}

// Number of the first row with a value that is infinite or beyond the limit (or NaN, unless gaps are allowed), or of rows.
template <class T>
std::size_t first_unfit_row(const T *x, std::size_t rows, std::size_t columns, std::size_t stride, T limit, bool gaps) {
    for (std::size_t n = 0; n < rows; ++n) {
        const T *row = x + n * stride;
        typename Lanes<T>::bits fit = ~typename Lanes<T>::bits{};
        std::size_t d = 0;
        for (; d + vector_lanes<T> <= columns; d += vector_lanes<T>) {
            const auto v = load_vector(row + d);
            const auto known = (v <= limit) & (v >= -limit); // neither holds for NaN
            fit &= gaps ? known | (v != v) : known;
        }
        bool all = true;
        for (std::size_t i = 0; i < vector_lanes<T>; ++i) all = all && fit[i];
        for (; d < columns; ++d) all = all && ((row[d] <= limit && row[d] >= -limit) || (gaps && row[d] != row[d]));
        if (!all) return n;
    }
    return rows;
}

template <class T>
constexpr Table<T> table = {first_unfit_row<T>, refresh_log_dets<T>, merge_rows<T>, rescale<T>,       score<T>,   read_all<T>,
                            rewrite_all<T>,      sgd_steps<T>,  natural_steps<T>, em_steps<T>};

} // namespace

namespace streamgmm {
extern const Loops STREAMGMM_TABLE;
const Loops STREAMGMM_TABLE = {table<float>, table<double>};
} // namespace streamgmm
