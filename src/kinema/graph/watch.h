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
  /// `blocks.3/attn1/to_q/dot_general`: model path, loop steps and operation, as in the program's
  /// locations; the input's name if the program's input is not finite.
  std::string where;
  Shape shape;
};

/// `blocks.3/attn1/to_q/dot_general, whose f32[2,8] is not finite`
std::string to_text(const NonFinite& found);

/// Adds to a graph one flag per floating-point value that some outputs depend on, also inside loops
/// and calls. A kernel (`fused`) and a manual region count as one operation; operations that only
/// move or select values need no flag.
///
/// Reports the first operation with a non-finite result and finite operands. Non-finite values that
/// no output depends on, such as the infinities of masks, are ignored.
class Watch {
 public:
  /// `outputs`: the outputs of the program. Changes the graph and its bodies.
  Watch(Graph& graph, std::span<const Tensor> outputs);
  ~Watch();

  /// An additional output of the program, F32 [n].
  Tensor flags() const { return flags_; }
  /// The first bad operation, from the values of flags(); empty if the outputs are finite.
  std::optional<NonFinite> first(std::span<const float> flags) const;

 private:
  struct Level;

  std::unique_ptr<Level> level_;
  Tensor flags_;
};

}  // namespace kinema
