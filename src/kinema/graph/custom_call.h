#pragma once

#include <any>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"

/// Custom calls: operations that a target's compiler or runtime implements under a name. Lowerings
/// (emit.h) use them to replace operations that have a gradient, after differentiation.
namespace kinema {

/// Attributes of kCustomCall.
struct CustomCallAttrs {
  /// `tpu_custom_call`, `__cudnn$fmhaSoftmax`, ...
  std::string target;
  /// Format of the configuration: 1 and 2 a string, 4 a dictionary.
  int64_t api_version = 1;
  /// MLIR text of the configuration: a string in quotes (mlir_quoted) or a dictionary in braces.
  std::string config;
  /// Axes from the fastest to the slowest in memory, for each operand and result; empty = all
  /// row-major.
  std::vector<std::vector<int64_t>> operand_layouts = {};
  std::vector<std::vector<int64_t>> result_layouts = {};
  /// Further attributes, `kernel_name = "flash_forward"`.
  std::string more = {};
  /// Data of the lowering about its kernel, for a lowering that replaces this call.
  std::any kernel = {};
};

/// The call's results, of shapes `results`. Throws an Error if it is differentiated.
std::vector<Tensor> custom_call(std::vector<Tensor> operands, std::vector<Shape> results,
                                CustomCallAttrs attrs);

extern const Op kCustomCall;

/// A quoted MLIR string: quotes, backslashes and control characters are written in hexadecimal.
std::string mlir_quoted(std::string_view text);

}  // namespace kinema
