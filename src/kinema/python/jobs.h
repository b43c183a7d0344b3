#pragma once

#include <nanobind/nanobind.h>

namespace kinema::python {

/// Settings, train and Generator.
void add_jobs(nanobind::module_& module);
/// Graph, Tensor and Program.
void add_graph(nanobind::module_& module);

}  // namespace kinema::python
