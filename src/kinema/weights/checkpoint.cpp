#include "kinema/weights/checkpoint.h"

#include <algorithm>
#include <array>
#include <span>

#include "kinema/core/error.h"
#include "kinema/weights/family.h"
#include "kinema/weights/stored.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

// A bundle of a whole pipeline in one file has these beside the transformer.
constexpr std::array<std::string_view, 5> kOtherParts{
    "vae.", "first_stage_model.", "text_encoders.", "cond_stage_model.", "conditioner."};

template <typename File>
std::vector<const io::TensorView*> views(const File& file) {
  std::vector<const io::TensorView*> out;
  for (const io::TensorView& tensor : file.tensors()) {
    out.push_back(&tensor);
  }
  return out;
}

// Scales of weights, by who wrote the file, and of activations.
constexpr std::array<std::string_view, 2> kScaleNames{".scale_weight", ".weight_scale"};
constexpr std::array<std::string_view, 2> kUnusedScales{".scale_input", ".input_scale"};
// How a layer is stored, in ComfyUI's files: JSON as bytes, or for all layers in the metadata.
constexpr std::string_view kLayerFormat = ".comfy_quant";
constexpr const char* kLayerFormats = "_quantization_metadata";

bool ends_with_one_of(std::string_view name, std::span<const std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// Throws an Error where a layer is no codes times scales: other formats turn or pack them.
void check_layer_format(const Json& layer, const std::string& where) {
  const std::string& format = layer.at("format").as_string();
  check(format == "float8_e4m3fn" || format == "float8_e5m2",
        "[weights] {} is stored as `{}`, which is not read\n  float8_e4m3fn and float8_e5m2 are: "
        "take such a file of the model",
        where, format);
}

void check_layer_format(const io::TensorView& tensor, const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 16;
  check(tensor.shape.dtype == DType::U8 && tensor.shape.elements() <= kMostBytes,
        "[weights] {}: `{}` is {}, expected JSON as bytes", path, tensor.name,
        to_string(tensor.shape));
  std::string text;
  for (const std::byte byte : tensor.bytes) {
    text += static_cast<char>(byte);
  }
  const std::string where = path + ": `" + tensor.name + "`";
  check_layer_format(Json::parse(text, where), where);
}

void check_layer_formats(const io::SafetensorsFile& file) {
  const auto found = file.metadata().find(kLayerFormats);
  if (found == file.metadata().end()) {
    return;
  }
  const Json all = Json::parse(found->second, file.path() + " (" + kLayerFormats + ")");
  const Json* layers = all.find("layers");
  for (const auto& [name, layer] :
       layers == nullptr ? std::vector<Json::Member>{} : layers->members()) {
    check_layer_format(layer, file.path() + ": `" + name + "`");
  }
}

// What stands before the transformer's keys, by who wrote the file.
constexpr std::array<std::string_view, 5> kPrefixes{"model.diffusion_model.", "diffusion_model.",
                                                    "transformer.", "model.", "module."};

std::string prefix_of(const std::vector<const io::TensorView*>& tensors) {
  for (const std::string_view prefix : kPrefixes) {
    for (const Family& family : families()) {
      const std::string name = std::string(prefix) + std::string(family.mark);
      if (std::ranges::any_of(tensors, [&](const io::TensorView* t) { return t->name == name; })) {
        return std::string(prefix);
      }
    }
  }
  return "";
}

}  // namespace

void refuse_other_formats(const fs::path& path) {
  const std::string extension = path.extension().string();
  const bool pickle =
      extension == ".pth" || extension == ".pt" || extension == ".ckpt" || extension == ".bin";
  check(!pickle,
        "[weights] {} is a pickle, which may run code when it is read: it is not opened\n"
        "  take the model's -Diffusers folder, or save the tensors as safetensors",
        path.string());
}

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

Checkpoint Checkpoint::open(const fs::path& path) {
  refuse_other_formats(path);
  Checkpoint out;
  out.path_ = path.string();
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    if (is_gguf(path)) {
      out.gguf_ = io::GgufFile::open(path);
    } else {
      out.single_.push_back(io::SafetensorsFile::open(path));
      out.files_.push_back(&out.single_[0]);
      check_layer_formats(out.single_[0]);
    }
    const fs::path beside = path.parent_path() / "config.json";
    if (fs::exists(beside, ignored)) {
      Json config = Json::read(beside);
      if (is_transformer_config(config)) {
        out.config_ = std::move(config);
      }
    }
    out.index(out.with_scales(out.gguf_ ? views(*out.gguf_) : views(out.single_[0])));
    return out;
  }
  out.folder_ = io::ModelFolder::open(path);
  out.config_ = out.folder_->config();
  for (const io::SafetensorsFile& file : out.folder_->files()) {
    out.files_.push_back(&file);
  }
  out.index(out.with_scales(out.folder_->tensors()));
  return out;
}

Checkpoint::Checkpoint(const io::ModelFolder& folder) : path_(folder.path()) {
  config_ = folder.config();
  for (const io::TensorView* tensor : folder.tensors()) {
    index_.emplace(tensor->name, tensor);
    tensors_.push_back({tensor->name, tensor});
  }
  for (const io::SafetensorsFile& file : folder.files()) {
    files_.push_back(&file);
  }
}

void Checkpoint::check_intact() const {
  for (const io::SafetensorsFile* file : files_) {
    file->check_intact();
  }
  if (gguf_) {
    gguf_->check_intact();
  }
}

/// The tensors without scales, and codes that have one as what they stand for. ComfyUI marks such
/// files with a tensor `scaled_fp8`, or each layer with its format, and may keep scales of
/// activations, which are not used.
std::vector<const io::TensorView*> Checkpoint::with_scales(
    std::vector<const io::TensorView*> tensors) {
  constexpr std::string_view kWeight = ".weight";
  std::map<std::string_view, const io::TensorView*> scales;  // by the module's name
  for (const io::TensorView* tensor : tensors) {
    for (const std::string_view end : kScaleNames) {
      if (tensor->name.ends_with(end)) {
        scales[std::string_view(tensor->name).substr(0, tensor->name.size() - end.size())] = tensor;
      }
    }
  }
  if (scales.empty()) {
    return tensors;
  }
  std::vector<const io::TensorView*> out;
  for (const io::TensorView* tensor : tensors) {
    const std::string_view name = tensor->name;
    if (name.ends_with(kLayerFormat)) {
      check_layer_format(*tensor, path_);
      continue;
    }
    if (name == "scaled_fp8" || name.ends_with(".scaled_fp8") ||
        ends_with_one_of(name, kUnusedScales) || ends_with_one_of(name, kScaleNames)) {
      continue;
    }
    const auto scale = name.ends_with(kWeight)
                           ? scales.find(name.substr(0, name.size() - kWeight.size()))
                           : scales.end();
    out.push_back(scale == scales.end() ? tensor : decoded(*tensor, *scale->second));
  }
  return out;
}

const io::TensorView* Checkpoint::decoded(const io::TensorView& codes,
                                          const io::TensorView& scale) {
  const DType dtype = codes.shape.dtype;
  check(dtype == DType::S8 || is_f8(dtype), "[weights] {}: `{}` has scales, but is {}", path_,
        codes.name, to_string(codes.shape));
  const int64_t count = scale.shape.elements();
  check(is_float(scale.shape.dtype) &&
            (count == 1 || (codes.shape.rank() >= 1 && count == codes.shape.dims[0])),
        "[weights] {}: the scales `{}` of `{}` are {}: one, or one for each of {} outputs is "
        "expected",
        path_, scale.name, codes.name, to_string(scale.shape),
        codes.shape.rank() >= 1 ? codes.shape.dims[0] : 1);
  const HostArray scales = convert(scale.copy(), DType::F32);
  return &decoded_.emplace_back(
      io::TensorView{.name = codes.name,
                     .shape = {DType::F32, codes.shape.dims},
                     .bytes = codes.bytes,
                     .decode = [bytes = codes.bytes, dtype, scales](std::span<float> values) {
                       decode_stored(bytes, dtype, scales.as<float>(), values);
                     }});
}

void Checkpoint::index(const std::vector<const io::TensorView*>& tensors) {
  prefix_ = prefix_of(tensors);
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(tensors, [&](const io::TensorView* view) {
      return view->name == prefix_ + std::string(name);
    });
  };
  naming_ = has("head.modulation") || has("blocks.0.self_attn.q.weight") ? Naming::ORIGINAL
                                                                         : Naming::DIFFUSERS;
  for (const io::TensorView* tensor : tensors) {
    std::string key = tensor->name;
    if (!prefix_.empty() && key.starts_with(prefix_)) {
      key.erase(0, prefix_.size());
    } else if (!prefix_.empty() && std::ranges::any_of(kOtherParts, [&](std::string_view part) {
                 return key.starts_with(part);
               })) {
      continue;
    }
    if (naming_ == Naming::ORIGINAL) {
      key = diffusers_key(key).value_or(key);
    }
    check(index_.emplace(key, tensor).second,
          "[weights] {}: `{}` stands for `{}`, which is there already", path_, tensor->name, key);
    tensors_.push_back({std::move(key), tensor});
  }
}

const io::TensorView* Checkpoint::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : found->second;
}

const io::TensorView& Checkpoint::at(std::string_view key) const {
  const io::TensorView* view = find(key);
  check(view != nullptr, "[weights] {} has no tensor `{}` among its {}", path_,
        name_in_file(std::string(key)), tensors_.size());
  return *view;
}

std::string Checkpoint::name_in_file(const std::string& key) const {
  return prefix_ + (naming_ == Naming::ORIGINAL ? original_key(key).value_or(key) : key);
}

bool is_transformer_config(const Json& config) {
  const Family* family = family_of_config(config);
  return family != nullptr && config.at("_class_name").as_string() == family->transformer_class;
}

bool is_original_config(const Json& config) {
  const Family* family = family_of_config(config);
  return family != nullptr && config.at("_class_name").as_string() == family->original_class;
}

const Family* family_of(const Checkpoint& checkpoint) {
  if (checkpoint.config().is_object()) {
    return family_of_config(checkpoint.config());
  }
  const auto found = std::ranges::find_if(
      families(), [&](const Family& family) { return checkpoint.find(family.mark) != nullptr; });
  return found == families().end() ? nullptr : &*found;
}

}  // namespace kinema::weights
