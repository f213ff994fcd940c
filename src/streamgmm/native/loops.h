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
};

// Loops of kinds that couple features: an object of their own, so that each kind is compiled as if it were alone.
template <class T> struct CoupledTable {
    FullLoops<T> full;
    LowRankLoops<T> low_rank;
};

struct CoupledLoops {
    CoupledTable<float> single;
    CoupledTable<double> twice;
};

struct Loops {
    Table<float> single;
    Table<double> twice;
    void (*copy_rows)(const char *const *values, std::size_t rows, std::size_t width, std::uint8_t *to);
    void (*to_responsibilities)(double *scores, std::size_t rows, std::size_t components, double *room);
};

} // namespace streamgmm
