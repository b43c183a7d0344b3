#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace kinema::kernels {

/// A kernel in the language of a compiler inside the target's compiler, left by a lowering in
/// CustomCallAttrs::kernel, for tests, separate compilation or files.
struct KernelText {
  enum class Language : uint8_t {
    MOSAIC,  // TPU: `tpu_custom_call`
    TRITON,  // GPU: `__gpu$xla.gpu.triton`
  };
  Language language = Language::MOSAIC;
  /// The name of its function.
  std::string name;
  std::string text;
  /// TRITON: number of programs along each axis. A Mosaic text contains its grid.
  std::array<int64_t, 3> grid = {1, 1, 1};
  bool operator==(const KernelText&) const = default;
};

/// Writes each text to its own file in `folder`: `flash_forward.mosaic.mlir`, and
/// `flash_forward_2.mosaic.mlir` for the second of that name. Throws an Error if it cannot.
void write_kernel_texts(const std::filesystem::path& folder, std::span<const KernelText> texts);

}  // namespace kinema::kernels
