#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"

namespace kinema {

/// The first operation with a non-finite result.
struct NonFinite {
  /// `blocks.3/attn1/to_q/dot_general`: model path, steps of loops and operation, as the program's
  /// locations have it; the input's name where a program was given such a value.
  std::string where;
  Shape shape;
};

/// `blocks.3/attn1/to_q/dot_general, whose f32[2,8] is not finite`
std::string to_text(const NonFinite& found);

/// Adds to a graph a flag for every floating-point value on the way to some outputs, also within
/// loops and calls. A kernel (`fused`) and a manual region are one operation; operations that only
/// move values or choose among them need no flag.
///
/// Reports the first operation with a non-finite result and finite operands. Non-finite values that
/// no output depends on, such as the infinities of masks, are ignored.
class Watch {
 public:
  /// `outputs` as the program is to have them. Changes the graph and its bodies.
  Watch(Graph& graph, std::span<const Tensor> outputs);
  ~Watch();

  /// A further output of the program, F32 [n].
  Tensor flags() const { return flags_; }
  /// By the values of flags(); nothing when the outputs are finite.
  std::optional<NonFinite> first(std::span<const float> flags) const;

 private:
  struct Level;

  std::unique_ptr<Level> level_;
  Tensor flags_;
};

}  // namespace kinema
