#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kinema/io/safetensors.h"

namespace kinema::model_files {

/// Weights of four bits, as bitsandbytes stores them: `X.weight` holds two codes a byte, the first
/// in the upper bits, `X.weight.quant_map` the 16 values of codes, and `X.weight.absmax` the scale
/// of each block of values, itself maybe as codes with `nested_quant_map`, `nested_absmax` and an
/// offset. `X.weight.quant_state.bitsandbytes__nf4` (or `fp4`) is JSON with shape and block sizes.
class FourBitWeights {
 public:
  /// Throws an Error with the tensor's name and `path` if the parts of a weight do not fit
  /// together. `tensors` must outlive the object.
  FourBitWeights(std::span<const io::TensorView* const> tensors, const std::string& path);

  /// The weight as F32 values in its shape; null for other tensors.
  const io::TensorView* decoded(std::string_view name) const;

  /// True for a tensor that describes another one.
  bool is_beside(std::string_view name) const;

 private:
  std::deque<io::TensorView> views_;
  std::map<std::string, const io::TensorView*, std::less<>> by_name_;
};

}  // namespace kinema::model_files
