#pragma once
#include <nanobind/nanobind.h>

namespace streamgmm {

// Adds models, moments and steps of the diagonal kind to the module.
void bind_diagonal(nanobind::module_ &m);

} // namespace streamgmm
