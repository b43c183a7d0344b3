#pragma once

#include <cstdint>
#include <span>

#include "kinema/graph/graph.h"

namespace kinema::planning {

/// What each device of a mesh holds at some moment, whatever a compiler makes of a program.
struct LeastMemory {
  int64_t arguments = 0;  // in device memory
  /// What the largest loop hands to later loops, stacks of a value a step, split evenly over all
  /// devices: what a backward pass reads.
  int64_t stacks = 0;

  int64_t bytes() const { return arguments + stacks; }
};

/// Of a program with these results. `host_memory`: the devices address memory of the host too, so
/// what is placed there counts for nothing.
LeastMemory least_memory(const Graph& graph, std::span<const Tensor> outputs, const MeshAxes& mesh,
                         bool host_memory);

}  // namespace kinema::planning
