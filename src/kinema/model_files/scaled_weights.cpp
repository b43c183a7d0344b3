#include "kinema/model_files/scaled_weights.h"

#include <array>
#include <optional>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::model_files {
namespace {

using io::Json;

constexpr std::array<std::string_view, 1> kWeightName{".weight"};
// Names of the scales of weights, by the program that wrote the file, and of activations.
constexpr std::array<std::string_view, 2> kScaleNames{".scale_weight", ".weight_scale"};
constexpr std::array<std::string_view, 2> kUnusedScales{".scale_input", ".input_scale"};
// The scale of a tensor whose blocks have scales too.
constexpr std::array<std::string_view, 1> kTensorScale{".weight_scale_2"};
// The format of a layer in ComfyUI's files: JSON as bytes, or for all layers in the metadata.
constexpr std::array<std::string_view, 1> kLayerFormat{".comfy_quant"};
constexpr const char* kLayerFormats = "_quantization_metadata";

/// `X` of a tensor that belongs to `X.weight`: a name with one of these ends.
std::optional<std::string_view> module_of(std::string_view name,
                                          std::span<const std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (name.ends_with(end)) {
      return name.substr(0, name.size() - end.size());
    }
  }
  return std::nullopt;
}

// A tensor that marks scaled weights; its values do not matter.
bool is_mark(std::string_view name) {
  return name == "scaled_fp8" || name.ends_with(".scaled_fp8");
}

}  // namespace

ScaledWeights::ScaledWeights(std::span<const io::TensorView* const> tensors,
                             const std::string& path)
    : path_(path) {
  for (const io::TensorView* tensor : tensors) {
    const std::string_view name = tensor->name;
    if (const auto module = module_of(name, kWeightName)) {
      weights_.emplace(*module, tensor);
    } else if (const auto scaled = module_of(name, kScaleNames)) {
      const auto [found, fresh] = scales_.emplace(*scaled, tensor);
      check(fresh, "[weights] {}: `{}` has the scales `{}` and `{}`, expected one of them", path_,
            std::string(*scaled) + ".weight", found->second->name, name);
    } else if (const auto twice = module_of(name, kTensorScale)) {
      tensor_scales_.emplace(*twice, tensor);
    } else if (const auto described = module_of(name, kLayerFormat)) {
      add_format(*described, *tensor);
    }
  }
}

void ScaledWeights::add_formats(const io::TensorFile& file, const std::string& prefix) {
  const auto found = file.metadata().find(kLayerFormats);
  if (found == file.metadata().end()) {
    return;
  }
  const Json all = Json::parse(found->second, file.path() + " (" + kLayerFormats + ")");
  const Json* layers = all.find("layers");
  for (const auto& [name, layer] :
       layers == nullptr ? std::vector<Json::Member>{} : layers->members()) {
    const bool is_whole = weights_.contains(name);
    add_format(is_whole ? name : prefix + name, layer, file.path() + ": `" + name + "`");
  }
}

void ScaledWeights::check_all(std::span<const io::TensorView* const> tensors) const {
  for (const io::TensorView* tensor : tensors) {
    for (const auto& names : {std::span<const std::string_view>(kScaleNames),
                              std::span<const std::string_view>(kUnusedScales),
                              std::span<const std::string_view>(kTensorScale),
                              std::span<const std::string_view>(kLayerFormat)}) {
      const auto module = module_of(tensor->name, names);
      check(!module || weights_.contains(*module),
            "[weights] {}: `{}` is there without `{}.weight`, expected both", path_, tensor->name,
            module.value_or(""));
    }
  }
  for (const auto& [module, weight] : weights_) {
    const DType dtype = weight->shape.dtype;
    const auto format = formats_.find(module);
    check(format == formats_.end() || format->second == dtype,
          "[weights] {}: `{}` is {}, but the file says that it is {}: expected one type", path_,
          weight->name, to_string(weight->shape),
          format == formats_.end() ? "" : to_string(format->second));
    const bool needs_scale = !nvfp4_of(weight->name) &&
                             (format != formats_.end() ||
                              (!scales_.empty() && is_f8(dtype) && weight->shape.rank() >= 2));
    check(!needs_scale || scales_.contains(module),
          "[weights] {}: `{}` is {} without a scale, expected `{}.scale_weight` as other layers "
          "have it\n  the file is corrupt: download it again",
          path_, weight->name, to_string(weight->shape), module);
  }
}

const io::TensorView* ScaledWeights::scale_of(std::string_view name) const {
  const auto module = module_of(name, kWeightName);
  const auto found = module ? scales_.find(*module) : scales_.end();
  return found == scales_.end() ? nullptr : found->second;
}

std::optional<ScaledWeights::Nvfp4> ScaledWeights::nvfp4_of(std::string_view name) const {
  const auto module = module_of(name, kWeightName);
  if (!module) {
    return std::nullopt;
  }
  const auto format = formats_.find(*module);
  const bool is_described = format != formats_.end() && format->second == DType::U8;
  const auto scale = tensor_scales_.find(*module);
  if (!is_described && scale == tensor_scales_.end()) {
    return std::nullopt;
  }
  return Nvfp4{.parts = {.codes = weights_.at(*module),
                         .scales = scale_of(name),
                         .scale = scale == tensor_scales_.end() ? nullptr : scale->second},
               .layout = is_described ? Nvfp4Layout::COMFYUI : Nvfp4Layout::MODELOPT};
}

bool ScaledWeights::is_beside(std::string_view name) {
  return is_mark(name) || module_of(name, kTensorScale) || module_of(name, kLayerFormat) ||
         module_of(name, kUnusedScales) || module_of(name, kScaleNames);
}

void ScaledWeights::add_format(std::string_view module, const io::TensorView& tensor) {
  constexpr int64_t kMostBytes = 1 << 16;
  check(tensor.shape.dtype == DType::U8 && tensor.shape.elements() <= kMostBytes,
        "[weights] {}: `{}` is {}, expected JSON as bytes", path_, tensor.name,
        to_string(tensor.shape));
  std::string text;
  for (const std::byte byte : tensor.bytes) {
    text += static_cast<char>(byte);
  }
  const std::string where = path_ + ": `" + tensor.name + "`";
  add_format(std::string(module), Json::parse(text, where), where);
}

// Other formats reorder or pack codes.
void ScaledWeights::add_format(const std::string& module, const Json& layer,
                               const std::string& where) {
  const std::string& format = layer.at("format").as_string();
  check(format == "float8_e4m3fn" || format == "float8_e5m2" || format == "nvfp4",
        "[weights] {} is stored as `{}`, which is not supported\n  float8_e4m3fn, float8_e5m2 and "
        "nvfp4 are: take such a file of the model",
        where, format);
  const Json* rotated = layer.find("convrot");
  check(rotated == nullptr || rotated->is_null() || !rotated->as_bool(),
        "[weights] {} has rotated weights (convrot), which are not supported\n  take a file of the "
        "model without them",
        where);
  const DType dtype = format == "nvfp4"         ? DType::U8
                      : format == "float8_e5m2" ? DType::F8E5M2
                                                : DType::F8E4M3FN;
  const auto [found, fresh] = formats_.emplace(module, dtype);
  check(fresh || found->second == dtype,
        "[weights] {} says `{}`, and another place of the file {}: expected one type", where,
        format, to_string(found->second));
}

}  // namespace kinema::model_files
