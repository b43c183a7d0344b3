#pragma once

#include <cstdint>
#include <span>

#include "kinema/graph/graph.h"

namespace kinema::planning {

/// A lower bound of the memory on each device of a mesh, independent of the compiler.
struct MinimumMemory {
  int64_t arguments = 0;  // in device memory
  /// The stacked values that the largest loop passes to later loops (which a backward pass reads),
  /// evenly divided over all devices.
  int64_t stacks = 0;

  int64_t bytes() const { return arguments + stacks; }
};

/// For a program with these results. `host_memory`: the devices can address host memory too, so
/// values in it do not count.
MinimumMemory minimum_memory(const Graph& graph, std::span<const Tensor> outputs,
                             const MeshAxes& mesh, bool host_memory);

}  // namespace kinema::planning
