#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/verification/verify.h"

namespace kinema::verification {

/// Kinds of kernels that a device may have (kernels/kernel_set.h).
enum class KernelKind : uint8_t {
  /// Attention, forward and backward: lengths that do not fill a block, masked keys, one head,
  /// widths of 64, 128 and 256.
  ATTENTION,
  /// Norm and rotation of queries or keys, for sampling only: several samples, and numbers and
  /// widths of heads that are not powers of two.
  NORM_ROTATION,
};

/// Compares the device's kernels of a kind with the same programs without them, on small shapes
/// that reach every branch. A shape that no kernel supports is `unsupported`; a program that cannot
/// be compiled or run is a row with the reason.
///
/// `options`: the kernels' settings and the compiler flags. `on_case` is called after each shape.
Report verify_kernels(KernelKind kind, const pjrt::Client& client,
                      const runtime::ProgramOptions& options,
                      const std::function<void(const std::vector<Row>& rows)>& on_case = {});

/// The number of these shapes.
int64_t kernel_case_count(KernelKind kind);

/// One program with all these kernels, which is compiled in a child process first because a
/// compiler may crash. Empty if the device has none.
std::string kernel_program(KernelKind kind, const pjrt::Client& client,
                           const runtime::ProgramOptions& options);

}  // namespace kinema::verification
