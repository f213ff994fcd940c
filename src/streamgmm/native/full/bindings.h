#pragma once
#include <nanobind/nanobind.h>

namespace streamgmm {

// Adds models and statistics of the full kind to the module.
void bind_full(nanobind::module_ &m);

} // namespace streamgmm
