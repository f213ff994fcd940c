// Scores of many samples at once: tiles of rows and components whose sums stay in registers.
//
// A tile goes over a pack vector by vector: first all first vectors of its packs, then all second ones. So it needs one
// register for each pair of row and component, whatever the width, and adds the same numbers in the same order as a
// loop over whole packs.
#pragma once
#include "scoring.h"

namespace {

constexpr int tile_rows = STREAMGMM_WIDTH == 64 ? 8 : 4;
constexpr int tile_components = 2;

// Features [start, stop) of components [first, last).
struct Block {
    std::size_t start, stop, first, last;
};

// Rows to score, and what they are compared with.
template <class T> struct Compared {
    const Input<T> &x;
    std::size_t begin, columns; // first row, and numbers of a row
    T *centre;                  // scratch [stride]
    T *packed;                  // scratch: parameters of a block
    const double *log_weights;  // [components]
};

// The mean nearest to zero of each feature of a block. For data far from zero the product of mean and scale would lose
// digits; no mean is farther from this centre than twice its own magnitude.  IN m, OUT centre[stride].
template <class T> inline void find_centre(const Model<T> &m, std::size_t start, std::size_t stop, T *centre) {
    constexpr std::size_t lanes = vector_lanes<T>;
    for (std::size_t d = start; d < stop; d += lanes) store_vector(centre + d, load_vector(m.means + d));
    for (std::size_t k = 1; k < m.components; ++k)
        for (std::size_t d = start; d < stop; d += lanes) {
            const auto mean = load_vector(m.means + k * m.stride + d), nearest = load_vector(centre + d);
            store_vector(centre + d, mean * mean < nearest * nearest ? mean : nearest);
        }
}

// The turn of the i-th vectors of packs: the bits of i in reverse, which is the order in which `sums` pairs them.
constexpr std::size_t turn_of(std::size_t i) {
    std::size_t turn = 0;
    for (std::size_t bit = 1; bit < pack_vectors; bit *= 2) turn += i & bit ? pack_vectors / 2 / bit : 0;
    return turn;
}

// Where a tile reads vector v of one of `count` rows: vectors of the first turn come first, then rows side by side.
inline std::size_t place(std::size_t v, std::size_t vectors, std::size_t count) {
    return (turn_of(v % pack_vectors) * (vectors / pack_vectors) + v / pack_vectors) * count;
}

// Scales and (mean - centre) * scale of a block, as tiles read them; components that fill up the last tile get zeros.
// IN m, centre[stride]; OUT packed.
template <class T> inline void pack_block(const Model<T> &m, const T *centre, const Block &part, T *packed) {
    using V = typename Lanes<T>::vector;
    constexpr std::size_t lanes = vector_lanes<T>, C = tile_components;
    const std::size_t vectors = (part.stop - part.start) / lanes;
    for (std::size_t k = part.first; k < part.last; k += C, packed += 2 * C * vectors * lanes)
        for (std::size_t v = 0; v < vectors; ++v) {
            T *to = packed + place(v, vectors, 2 * C) * lanes;
            const V middle = load_vector(centre + part.start + v * lanes);
            UNROLLED_FOR (std::size_t c = 0; c < C; ++c, to += 2 * lanes) {
                const std::size_t at = (k + c) * m.stride + part.start + v * lanes;
                const V scale = k + c < part.last ? load_vector(m.scales + at) : V{};
                const V mean = k + c < part.last ? load_vector(m.means + at) : V{};
                store_vector(to, scale);
                store_vector(to + lanes, (mean - middle) * scale);
            }
        }
}

// Rows n to n + number relative to the centre, as tiles of R rows read them; rows that fill up the last tile get zeros.
// IN rows; OUT to[R * features of the block].
template <class T, int R>
inline void interleave(const Compared<T> &rows, std::size_t n, std::size_t number, const Block &part, T *to) {
    constexpr std::size_t lanes = vector_lanes<T>;
    const Input<T> &x = rows.x;
    const std::size_t known = rows.columns < part.stop ? rows.columns : part.stop; // beyond is padding
    const std::size_t vectors = (part.stop - part.start) / lanes;
    for (std::size_t r = 0; r < R; ++r) {
        const std::size_t row = (rows.begin + n + r) * x.stride;
        auto dest = [&](std::size_t v) { return to + (place(v, vectors, R) + r) * lanes; };
        std::size_t v = 0;
        if (r >= number)
            for (; v < vectors; ++v) store_vector(dest(v), typename Lanes<T>::vector{});
        for (std::size_t d = part.start; v < vectors && x.numbers && d + lanes <= known; ++v, d += lanes) {
            __builtin_prefetch(x.numbers + row + R * x.stride + d); // of the next tile
            store_vector(dest(v), load_vector(x.numbers + row + d) - load_vector(rows.centre + d));
        }
        for (; v < vectors; ++v) {
            const std::size_t first = part.start + v * lanes;
            for (std::size_t i = 0; i < lanes; ++i) {
                const std::size_t d = first + i;
                dest(v)[i] = d >= known ? T(0) : x.numbers ? x.numbers[row + d] : T(x.bytes[row + d]) * x.factor;
            }
        }
    }
    if (x.numbers && known == part.stop) return;
    // a loop of its own: fusing product and difference would give bytes and numbers different results
    const std::size_t done = x.numbers ? (known > part.start ? (known - part.start) / lanes : 0) : 0;
    for (std::size_t r = 0; r < number; ++r)
        for (std::size_t v = done; v < vectors; ++v) {
            T *at = to + (place(v, vectors, R) + r) * lanes;
            store_vector(at, load_vector(at) - load_vector(rows.centre + part.start + v * lanes));
        }
}

// Distances of R interleaved samples from C packed components over `count` features: each term takes two fused
// operations. The order of additions, and so the result, does not depend on R and C.
// IN x, packed; OUT out[R * C].
template <class T, int R, int C> inline void tile(const T *x, const T *packed, std::size_t count, T *out) {
    using V = typename Lanes<T>::vector;
    constexpr std::size_t lanes = vector_lanes<T>;
    V acc[R * C], waiting[3][R * C]; // sums of 1, 2 and 4 turns that wait for as many others
    UNROLLED_FOR (std::size_t turn = 0; turn < pack_vectors; ++turn) {
        UNROLLED_FOR (int j = 0; j < R * C; ++j) acc[j] = V{};
        for (std::size_t d = 0; d < count; d += pack_lanes<T>, x += R * lanes, packed += 2 * C * lanes) {
            V s[C], b[C];
            UNROLLED_FOR (int c = 0; c < C; ++c) {
                s[c] = load_vector(packed + 2 * c * lanes);
                b[c] = load_vector(packed + (2 * c + 1) * lanes);
            }
            UNROLLED_FOR (int r = 0; r < R; ++r) {
                const V sample = load_vector(x + r * lanes);
                UNROLLED_FOR (int c = 0; c < C; ++c) {
                    const V z = sample * s[c] - b[c];
                    acc[r * C + c] += z * z;
                }
            }
        }
        std::size_t level = 0;
        UNROLLED_FOR (; turn >> level & 1; ++level)
            UNROLLED_FOR (int j = 0; j < R * C; ++j) acc[j] += waiting[level][j];
        if (turn + 1 == pack_vectors) break;
        UNROLLED_FOR (int j = 0; j < R * C; ++j) waiting[level][j] = acc[j];
    }
    constexpr int folded = R * C < int(lanes) ? R * C : int(lanes);
    UNROLLED_FOR (int first = 0; first < R * C; first += folded) {
        alignas(64) T total[lanes];
        store_vector(total, fold<T, 1, folded>(acc + first));
        UNROLLED_FOR (int j = 0; j < folded; ++j) out[first + j] = total[j];
    }
}

// Scores of two components.
typedef double Two __attribute__((vector_size(16)));

template <class N> inline Two load_two(const N *from) { return Two{double(from[0]), double(from[1])}; }

// Adds the distances of up to R rows from a block of components, and turns them into scores where they are complete.
// IN m, rows; INOUT scores.
template <class T, int R>
inline void tile_row(const Model<T> &m, const Compared<T> &rows, std::size_t n, std::size_t number, const Block &part,
                     double *scores) {
    constexpr std::size_t C = tile_components;
    const std::size_t count = part.stop - part.start;
    alignas(64) T block[R * block_features];
    interleave<T, R>(rows, n, number, part, block);
    const T *packed = rows.packed;
    for (std::size_t k = part.first; k < part.last; k += C, packed += 2 * C * count) {
        T added[R * C];
        tile<T, R, C>(block, packed, count, added);
        double *to = scores + n * m.components + k;
        if (k + C > part.last) {
            for (std::size_t r = 0; r < number; ++r, to += m.components) {
                *to = part.start ? *to + double(added[r * C]) : double(added[r * C]);
                if (part.stop == m.stride) *to = score_at(m, rows.log_weights, k, *to);
            }
            continue;
        }
        const Two log_weights = load_two(rows.log_weights + k), highest = m.constant + load_two(m.log_dets + k);
        for (std::size_t r = 0; r < number; ++r, to += m.components) {
            Two score = load_two(added + r * C);
            if (part.start) score += load_two(to);
            if (part.stop == m.stride) { // score_at
                score = score < distance_max<T> ? score : Two{distance_max<T>, distance_max<T>};
                score = log_weights + (highest - 0.5 * score);
            }
            to[0] = score[0], to[1] = score[1];
        }
    }
}

// [E2] Scores of all components for many samples.  IN m, rows; OUT scores[number, components].
template <class T>
inline void score_many(const Model<T> &m, const Compared<T> &rows, std::size_t number, double *scores) {
    constexpr std::size_t few = tile_rows / 4; // a tile that is not filled costs as much as a full one
    for (std::size_t start = 0; start < m.stride; start += block_features) {
        const std::size_t stop = m.stride - start < block_features ? m.stride : start + block_features;
        if (!rows.begin) find_centre(m, start, stop, rows.centre); // it is the same for all further rows
        for (std::size_t first = 0; first < m.components; first += block_components) {
            const std::size_t last = m.components - first < block_components ? m.components : first + block_components;
            const Block part = {start, stop, first, last};
            pack_block(m, rows.centre, part, rows.packed);
            std::size_t n = 0;
            for (; n + few < number; n += tile_rows)
                tile_row<T, tile_rows>(m, rows, n, number - n < tile_rows ? number - n : tile_rows, part, scores);
            for (; n < number; ++n) tile_row<T, 1>(m, rows, n, 1, part, scores);
        }
    }
}

// Scores of the padded samples in scratch.  IN m, INOUT scratch.
template <class T> inline void score_batch(const Model<T> &m, Scratch<T> &scratch) {
    const Input<T> padded = {scratch.samples, nullptr, T(1), m.stride, nullptr, false, {}};
    score_many(m, {padded, 0, m.stride, scratch.centre, scratch.packed, scratch.log_weights}, scratch.batch,
               scratch.scores);
    if (!scratch.gaps) return;
    for (std::size_t n = 0; n < scratch.batch; ++n) {
        const T *present = scratch.present + n * m.stride;
        bool whole = true;
        for (std::size_t d = 0; d < m.features; ++d) whole &= present[d] != T(0);
        if (!whole)
            score_known(m, scratch.samples + n * m.stride, present, scratch.log_weights,
                        scratch.scores + n * m.components);
    }
}

// [E2] [E3] [E4] for each row.  IN m, x[rows, features], scratch; OUT out.
template <class T> void score(Model<T> m, Input<T> x, std::size_t rows, Scratch<T> scratch, Answers out) {
    softmax(m.logits, m.components, scratch.weights, scratch.log_weights);
    for (std::size_t done = 0; done < rows; done += scratch.batch) {
        const std::size_t count = rows - done < scratch.batch ? rows - done : scratch.batch;
        double *scores = out.scores ? out.scores + done * m.components : scratch.scores;
        score_many(m, {x, done, m.features, scratch.centre, scratch.packed, scratch.log_weights}, count, scores);
        for (std::size_t n = 0; n < count; ++n) {
            double *row = scores + n * m.components;
            if (row[0] <= score_at(m, scratch.log_weights, 0, distance_max<T>)) { // out of bounds, or NaN
                take_row(x, done + n, m.features, m.stride, scratch.samples);
                if (find_gaps(scratch.samples, scratch.present, m.stride))
                    score_known(m, scratch.samples, scratch.present, scratch.log_weights, row);
            }
            double total;
            if (out.log_likelihood)
                out.log_likelihood[done + n] = exponentials(row, m.components, scratch.weights, &total);
            const std::size_t best = argmax(row, m.components);
            if (out.max_component) out.max_component[done + n] = row[best];
            if (out.winner) out.winner[done + n] = std::int64_t(best);
        }
    }
}

} // namespace
