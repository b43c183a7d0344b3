#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/verification/verify.h"

namespace kinema::verification {

/// What a device may have kernels for (kernels/kernel_set.h).
enum class KernelKind : uint8_t {
  /// Attention, forward and backward: lengths that fill no block, keys that do not count, one head,
  /// widths of 64, 128 and 256.
  ATTENTION,
  /// Norm and rotation of queries or keys, which is only sampled with: several samples, heads and
  /// widths that are no powers of two.
  NORM_ROTATION,
};

/// The device's kernels of a kind against the same programs without them, on small shapes that
/// reach every branch. A shape that no kernel takes is `unsupported`; a program that cannot be
/// compiled or run is a row with the reason.
///
/// `options`: the kernels' settings and the compiler's flags. `on_case` is called after each shape.
Report verify_kernels(KernelKind kind, const pjrt::Client& client,
                      const runtime::ProgramOptions& options,
                      const std::function<void(const std::vector<Row>& rows)>& on_case = {});

/// How many shapes that are.
int64_t kernel_case_count(KernelKind kind);

/// One program with all these kernels, to be compiled elsewhere first: a text that a compiler does
/// not take may end its process. Empty where the device has none.
std::string kernel_program(KernelKind kind, const pjrt::Client& client,
                           const runtime::ProgramOptions& options);

}  // namespace kinema::verification
