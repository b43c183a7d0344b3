#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kinema/core/dtype.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/nvfp4.h"

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
  /// The parts of `X.weight` and their layout if it is stored as NVFP4; else nothing.
  struct Nvfp4 {
    Nvfp4Parts parts;
    Nvfp4Layout layout = Nvfp4Layout::MODELOPT;
  };
  std::optional<Nvfp4> nvfp4_of(std::string_view name) const;

  /// True for a tensor that describes another one and is not a weight.
  static bool is_beside(std::string_view name);

 private:
  void add_format(std::string_view module, const io::TensorView& tensor);
  void add_format(const std::string& module, const io::Json& layer, const std::string& where);

  const std::string& path_;
  std::map<std::string_view, const io::TensorView*> weights_;
  std::map<std::string_view, const io::TensorView*> scales_;
  std::map<std::string_view, const io::TensorView*> tensor_scales_;  // of NVFP4
  std::map<std::string, DType, std::less<>> formats_;                // U8: NVFP4
};

}  // namespace kinema::model_files
