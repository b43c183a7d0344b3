#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// Writes `build(inputs)` in place of a node, inputs and results in the node's order; results that
/// nobody reads are not written. Its nodes stand under the node's model path, and the lowering sees
/// them in turn.
///
/// Throws an Error when a result's shape is not the node's.
void write_instead(const Node& node, Emitter& out,
                   const std::function<std::vector<Tensor>(std::span<const Tensor>)>& build);
/// The same of other tensors, written already, than the node's own inputs: where it is the last of
/// several nodes that are written as one. The compiler drops the others where nobody reads them.
void write_instead(const Node& node, std::span<const Tensor> inputs, Emitter& out,
                   const std::function<std::vector<Tensor>(std::span<const Tensor>)>& build);

}  // namespace kinema::kernels
