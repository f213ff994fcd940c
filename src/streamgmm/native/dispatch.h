// Vector widths: one table of loops each, chosen at run time.
#pragma once
#include <string>
#include <type_traits>
#include <vector>

#include "loops.h"

namespace streamgmm {

// Names of the widths that this machine can run, narrowest first.
std::vector<std::string> widths();
// The width in use.
std::string width();
void use_width(const std::string &name);

// The loops of the width in use.
const Loops &loops();
const CoupledLoops &coupled_loops();

template <class T> const Table<T> &table() {
    if constexpr (std::is_same_v<T, float>)
        return loops().single;
    else
        return loops().twice;
}

template <class T> const CoupledTable<T> &coupled_table() {
    if constexpr (std::is_same_v<T, float>)
        return coupled_loops().single;
    else
        return coupled_loops().twice;
}

} // namespace streamgmm
