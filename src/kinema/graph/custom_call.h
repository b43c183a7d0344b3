#pragma once

#include <any>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"

/// Calls of what a target's compiler or runtime knows by name. For lowerings (emit.h): they put one
/// in place of operations that have a gradient, after everything has been differentiated.
namespace kinema {

/// Attributes of kCustomCall.
struct CustomCallAttrs {
  /// `tpu_custom_call`, `__cudnn$fmhaSoftmax`, ...
  std::string target;
  /// How the call takes its configuration: 1 and 2 as a string, 4 as a dictionary.
  int64_t api_version = 1;
  /// MLIR text of the configuration: a string in quotes (mlir_quoted) or a dictionary in braces.
  std::string config;
  /// Axes from the fastest to the slowest in memory, for each operand and result; empty = all
  /// row-major.
  std::vector<std::vector<int64_t>> operand_layouts = {};
  std::vector<std::vector<int64_t>> result_layouts = {};
  /// Further attributes, `kernel_name = "flash_forward"`.
  std::string more = {};
  /// What the lowering knows of its kernel, for whoever replaces the call in turn.
  std::any kernel = {};
};

/// The call's results, of these shapes. Has no gradient: to differentiate it is an Error.
std::vector<Tensor> custom_call(std::vector<Tensor> operands, std::vector<Shape> results,
                                CustomCallAttrs attrs);

extern const Op kCustomCall;

/// A string as MLIR writes it: quotes, backslashes and control characters in hexadecimal.
std::string mlir_quoted(std::string_view text);

}  // namespace kinema
