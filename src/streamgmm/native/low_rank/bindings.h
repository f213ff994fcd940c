#pragma once
#include <nanobind/nanobind.h>

namespace streamgmm {

// Adds models and statistics of the low-rank kind to the module.
void bind_low_rank(nanobind::module_ &m);

} // namespace streamgmm
