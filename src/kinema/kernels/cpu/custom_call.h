#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// What every typed custom call says of its operands: names, types, row-major layouts.
struct Operands {
  std::vector<std::string> names, types, layouts;

  void add(std::string name, const Shape& shape);
};

Operands operands_of(std::span<const Tensor> inputs, const Emitter& out);
/// Of all that a node reads.
Operands operands_of(const Node& node, const Emitter& out);

/// The first `count` results of a node, the first `in_place` of them written over the operands of
/// the same number.
struct Results {
  size_t count = 1;
  size_t in_place = 0;
};

/// Writes a typed call, and binds results of `written` to its own. `location` is that of the node
/// that the call computes.
void write_call(const Node& written, const char* target, const std::string& config,
                const Operands& in, Emitter& out, const std::string& location,
                const Results& results = {});

/// The attribute by which a traced kernel knows its place in the model: `blocks/attn1/to_q`.
std::string traced_label(const Node& node);

}  // namespace kinema::kernels
