#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// The operands of a typed custom call: names, types, row-major layouts.
struct Operands {
  std::vector<std::string> names, types, layouts;

  void add(std::string name, const Shape& shape);
};

Operands operands_of(std::span<const Tensor> inputs, const Emitter& out);
/// The operands of a node.
Operands operands_of(const Node& node, const Emitter& out);

/// The first `count` results of a node; the first `in_place` of them alias the operands of the same
/// index.
struct Results {
  size_t count = 1;
  size_t in_place = 0;
};

/// Writes a typed call and binds its results to those of `written`. `location`: that of the
/// computed node.
void write_call(const Node& written, const char* target, const std::string& config,
                const Operands& in, Emitter& out, const std::string& location,
                const Results& results = {});

/// The model path under which a traced kernel is recorded: `blocks/attn1/to_q`.
std::string traced_label(const Node& node);

}  // namespace kinema::kernels
