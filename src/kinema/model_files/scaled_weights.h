#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kinema/core/dtype.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::model_files {

/// A file's data about its weights, by module name: scales of codes, as in ComfyUI's files, and the
/// storage format of each layer.
class ScaledWeights {
 public:
  /// Throws an Error for two scales of one weight. `tensors` and `path` must outlive the object.
  ScaledWeights(std::span<const io::TensorView* const> tensors, const std::string& path);

  /// Newer files store the formats of all layers in the metadata, maybe without `prefix` in names.
  void add_formats(const io::TensorFile& file, const std::string& prefix);
  /// Throws an Error if the formats do not fit the weights.
  void check_all(std::span<const io::TensorView* const> tensors) const;
  /// The scales of `X.weight`, or null.
  const io::TensorView* scale_of(std::string_view name) const;

  /// True for a tensor that describes another one and is not a weight.
  static bool is_beside(std::string_view name);

 private:
  void add_format(std::string_view module, const io::TensorView& tensor);
  void add_format(const std::string& module, const io::Json& layer, const std::string& where);

  const std::string& path_;
  std::map<std::string_view, const io::TensorView*> weights_;
  std::map<std::string_view, const io::TensorView*> scales_;
  std::map<std::string, DType, std::less<>> formats_;
};

}  // namespace kinema::model_files
