#pragma once

#include <cstdint>
#include <string>

#include "kinema/io/safetensors.h"

namespace kinema::model_files {

/// The order of codes and scales in files of NVFP4 weights.
enum class Nvfp4Layout : uint8_t {
  /// NVIDIA's Model Optimizer: the first code of a byte in the lower bits; scales [rows, columns /
  /// 16].
  MODELOPT,
  /// ComfyUI: the first code in the upper bits; scales in cuBLAS's tiles of 128 x 4 (its manual,
  /// "1D block scaling factors layout"), whose rows and columns are padded to whole tiles.
  COMFYUI,
};

/// The tensors of one weight. The value of a code is its number in E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6
/// and a sign), times the scale of its block of 16 values in a row, times the tensor's scale.
struct Nvfp4Parts {
  const io::TensorView* codes = nullptr;   // U8 [rows, columns / 2]
  const io::TensorView* scales = nullptr;  // F8E4M3FN
  const io::TensorView* scale = nullptr;   // one float
};

/// The weight as F32 [rows, columns], decoded when it is read. Throws an Error with the tensors'
/// names and `path` if they do not fit together, and for scales that are negative or not finite.
/// The views must outlive the result.
io::TensorView nvfp4_view(const Nvfp4Parts& parts, Nvfp4Layout layout, const std::string& path);

}  // namespace kinema::model_files
