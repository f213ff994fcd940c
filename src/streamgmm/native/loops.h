// The table of loops that each vector width provides.
#pragma once
#include "diagonal/types.h"
#include "full/types.h"
#include "low_rank/types.h"
#include "shared/types.h"

namespace streamgmm {

template <class T> struct Table {
    DiagonalLoops<T> diagonal;
    SharedLoops<T> shared;
    FullLoops<T> full;
    LowRankLoops<T> low_rank;
};

struct Loops {
    Table<float> single;
    Table<double> twice;
    void (*copy_rows)(const char *const *values, std::size_t rows, std::size_t width, std::uint8_t *to);
};

} // namespace streamgmm
