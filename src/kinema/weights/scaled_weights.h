#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kinema/core/dtype.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::weights {

/// What a file says of its weights, by the module's name: scales of codes, as ComfyUI's files have
/// them beside the weights, and how each layer is stored.
class ScaledWeights {
 public:
  /// Throws an Error for two scales of one weight. `tensors` and `path` outlive this.
  ScaledWeights(std::span<const io::TensorView* const> tensors, const std::string& path);

  /// Later files may say it of all layers in the metadata, where names may lack `prefix`.
  void add_formats(const io::SafetensorsFile& file, const std::string& prefix);
  /// Throws an Error where what is said does not fit the weights.
  void check_all(std::span<const io::TensorView* const> tensors) const;
  /// The scales of `X.weight`, or null.
  const io::TensorView* scale_of(std::string_view name) const;

  /// A tensor that says something of another one, and is no weight.
  static bool is_beside(std::string_view name);

 private:
  void add_format(std::string_view module, const io::TensorView& tensor);
  void add_format(const std::string& module, const io::Json& layer, const std::string& where);

  const std::string& path_;
  std::map<std::string_view, const io::TensorView*> weights_;
  std::map<std::string_view, const io::TensorView*> scales_;
  std::map<std::string, DType, std::less<>> formats_;
};

}  // namespace kinema::weights
