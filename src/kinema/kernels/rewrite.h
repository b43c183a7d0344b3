#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// Writes `build(inputs)` instead of a node, inputs and results in the node's order; unused results
/// are not written. Its nodes get the node's model path, and the lowering sees them in turn.
///
/// Throws an Error if a result's shape differs from the node's.
void emit_replacement(const Node& node, Emitter& out,
                      const std::function<std::vector<Tensor>(std::span<const Tensor>)>& build);
/// The same with other, already written tensors instead of the node's inputs, for the last of
/// several nodes that are written as one. The compiler drops the other nodes if nothing else reads
/// them.
void emit_replacement(const Node& node, std::span<const Tensor> inputs, Emitter& out,
                      const std::function<std::vector<Tensor>(std::span<const Tensor>)>& build);

}  // namespace kinema::kernels
