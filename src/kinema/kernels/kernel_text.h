#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace kinema::kernels {

/// A kernel in the language of a compiler inside the target's compiler: what a lowering leaves in
/// CustomCallAttrs::kernel, to be tested, compiled by itself, or written to a file.
struct KernelText {
  enum class Language : uint8_t {
    MOSAIC,  // TPU: `tpu_custom_call`
    TRITON,  // GPU: `__gpu$xla.gpu.triton`
  };
  Language language = Language::MOSAIC;
  /// Its function's.
  std::string name;
  std::string text;
  /// TRITON: programs along each axis. A Mosaic text says its grid itself.
  std::array<int64_t, 3> grid = {1, 1, 1};
  bool operator==(const KernelText&) const = default;
};

/// Writes each text into a file of its own in `folder`: `flash_forward.mosaic.mlir`, and
/// `flash_forward_2.mosaic.mlir` for the second of a name. Throws an Error where it cannot.
void write_kernel_texts(const std::filesystem::path& folder, std::span<const KernelText> texts);

}  // namespace kinema::kernels
