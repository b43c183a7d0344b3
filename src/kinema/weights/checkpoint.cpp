#include "kinema/weights/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
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

bool is_of_other_part(std::string_view name) {
  return std::ranges::any_of(kOtherParts,
                             [&](std::string_view part) { return name.starts_with(part); });
}

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
constexpr std::array<std::string_view, 1> kLayerFormat{".comfy_quant"};
constexpr const char* kLayerFormats = "_quantization_metadata";

/// `X` of a tensor that says something of `X.weight`: a name that ends with one of these.
std::optional<std::string_view> module_of(std::string_view name,
                                          std::span<const std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (name.ends_with(end)) {
      return name.substr(0, name.size() - end.size());
    }
  }
  return std::nullopt;
}

// A tensor that says that weights are scaled; its values do not matter.
bool is_mark(std::string_view name) {
  return name == "scaled_fp8" || name.ends_with(".scaled_fp8");
}

/// What a file says of its weights, by the module's name.
class Storage {
 public:
  Storage(std::span<const io::TensorView* const> tensors, const std::string& path) : path_(path) {
    for (const io::TensorView* tensor : tensors) {
      const std::string_view name = tensor->name;
      if (const auto module = module_of(name, kWeightName)) {
        weights_.emplace(*module, tensor);
      } else if (const auto scaled = module_of(name, kScaleNames)) {
        const auto [found, fresh] = scales_.emplace(*scaled, tensor);
        check(fresh, "[weights] {}: `{}` has the scales `{}` and `{}`, expected one of them", path_,
              std::string(*scaled) + ".weight", found->second->name, name);
      } else if (const auto described = module_of(name, kLayerFormat)) {
        add_format(*described, *tensor);
      }
    }
  }

  /// ComfyUI's later files may say it of all layers in the metadata, where names may lack `prefix`.
  void add_formats(const io::SafetensorsFile& file, const std::string& prefix) {
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

  /// Throws an Error where what is said does not fit the weights.
  void check_all(std::span<const io::TensorView* const> tensors) const {
    for (const io::TensorView* tensor : tensors) {
      for (const auto& names : {std::span<const std::string_view>(kScaleNames),
                                std::span<const std::string_view>(kUnusedScales),
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
      const bool wants_scale = format != formats_.end() ||
                               (!scales_.empty() && is_f8(dtype) && weight->shape.rank() >= 2);
      check(!wants_scale || scales_.contains(module),
            "[weights] {}: `{}` is {} without a scale, expected `{}.scale_weight` as other layers "
            "have it\n  the file is damaged: fetch it anew",
            path_, weight->name, to_string(weight->shape), module);
    }
  }

  /// The scales of `X.weight`, or null.
  const io::TensorView* scale_of(std::string_view name) const {
    const auto module = module_of(name, kWeightName);
    const auto found = module ? scales_.find(*module) : scales_.end();
    return found == scales_.end() ? nullptr : found->second;
  }

 private:
  void add_format(std::string_view module, const io::TensorView& tensor) {
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

  /// Others turn codes or pack them.
  void add_format(const std::string& module, const Json& layer, const std::string& where) {
    const std::string& format = layer.at("format").as_string();
    check(format == "float8_e4m3fn" || format == "float8_e5m2",
          "[weights] {} is stored as `{}`, which is not read\n  float8_e4m3fn and float8_e5m2 are: "
          "take such a file of the model",
          where, format);
    const DType dtype = format == "float8_e5m2" ? DType::F8E5M2 : DType::F8E4M3FN;
    const auto [found, fresh] = formats_.emplace(module, dtype);
    check(fresh || found->second == dtype,
          "[weights] {} says `{}`, and another place of the file {}: expected one type", where,
          format, to_string(found->second));
  }

  static constexpr std::array<std::string_view, 1> kWeightName{".weight"};

  const std::string& path_;
  std::map<std::string_view, const io::TensorView*> weights_;
  std::map<std::string_view, const io::TensorView*> scales_;
  std::map<std::string, DType, std::less<>> formats_;
};

/// Throws an Error for a file that says of itself that it is another network.
void check_architecture(const io::GgufFile& file) {
  constexpr std::string_view kKey = "general.architecture";
  constexpr std::array kOthers{"flux",    "sd1",        "sd2",       "sd3",  "sdxl",  "aura",
                               "ltxv",    "hyvid",      "cosmos",    "t5",   "llama", "hidream",
                               "lumina2", "qwen_image", "t5encoder", "clip", "gemma", "qwen2vl"};
  const auto found = file.texts().find(std::string(kKey));
  check(found == file.texts().end() || std::ranges::count(kOthers, found->second) == 0,
        "[weights] {}: {} is `{}`, expected `wan`\n  take a file of the model that is meant",
        file.path(), kKey, found == file.texts().end() ? "" : found->second);
}

// What stands before the transformer's keys, by who wrote the file.
constexpr std::array<std::string_view, 5> kPrefixes{"model.diffusion_model.", "diffusion_model.",
                                                    "transformer.", "model.", "module."};

std::string prefix_of(std::span<const io::TensorView* const> tensors) {
  for (const std::string_view prefix : kPrefixes) {
    for (const Family& family : families()) {
      for (const std::string_view mark : family.marks) {
        const std::string name = std::string(prefix) + std::string(mark);
        if (std::ranges::any_of(tensors,
                                [&](const io::TensorView* t) { return t->name == name; })) {
          return std::string(prefix);
        }
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
  const bool is_cut = fs::is_regular_file(path.string() + ".index.json", ignored);
  if (fs::is_regular_file(path, ignored) || is_cut) {
    if (!is_cut && is_gguf(path)) {
      out.gguf_ = io::GgufFile::open(path);
      check_architecture(*out.gguf_);
    } else {
      out.single_ = io::open_shards(path);
      for (const io::SafetensorsFile& file : out.single_) {
        out.files_.push_back(&file);
      }
    }
    const fs::path beside = path.parent_path() / "config.json";
    if (fs::exists(beside, ignored)) {
      Json config = Json::read(beside);
      if (is_transformer_config(config)) {
        out.config_ = std::move(config);
      }
    }
    std::vector<const io::TensorView*> all;
    if (out.gguf_) {
      all = views(*out.gguf_);
    }
    for (const io::SafetensorsFile& file : out.single_) {
      const std::vector<const io::TensorView*> part = views(file);
      all.insert(all.end(), part.begin(), part.end());
    }
    out.index(out.with_scales(all));
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

void Checkpoint::check_scales() const {
  if (gguf_) {  // those of safetensors were asked for when it was opened
    gguf_->check_scales();
  }
}

/// The tensors without scales, and codes that have one as what they stand for. ComfyUI marks such
/// files with a tensor `scaled_fp8`, or each layer with its format, and may keep scales of
/// activations, which are not used.
std::vector<const io::TensorView*> Checkpoint::with_scales(
    std::span<const io::TensorView* const> all) {
  const std::string prefix = prefix_of(all);
  std::vector<const io::TensorView*> tensors;
  std::ranges::copy_if(all, std::back_inserter(tensors), [&](const io::TensorView* tensor) {
    return prefix.empty() || tensor->name.starts_with(prefix) || !is_of_other_part(tensor->name);
  });
  Storage storage(tensors, path_);
  for (const io::SafetensorsFile* file : files_) {
    storage.add_formats(*file, prefix);
  }
  storage.check_all(tensors);
  std::vector<const io::TensorView*> out;
  for (const io::TensorView* tensor : tensors) {
    const std::string_view name = tensor->name;
    if (is_mark(name) || module_of(name, kLayerFormat) || module_of(name, kUnusedScales) ||
        module_of(name, kScaleNames)) {
      continue;
    }
    const io::TensorView* scale = storage.scale_of(name);
    out.push_back(scale == nullptr ? tensor : decoded(*tensor, *scale));
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
  for (const float value : scales.as<float>()) {
    check(std::isfinite(value) && value > 0.0F,
          "[weights] {}: a scale in `{}` is {}, expected finite numbers above 0\n"
          "  the file is damaged: fetch it anew",
          path_, scale.name, value);
  }
  const io::TensorView& view = decoded_.emplace_back(
      io::TensorView{.name = codes.name,
                     .shape = {DType::F32, codes.shape.dims},
                     .bytes = codes.bytes,
                     .decode = [bytes = codes.bytes, dtype, scales](std::span<float> values) {
                       decode_stored(bytes, dtype, scales.as<float>(), values);
                     }});
  codes_.emplace(&view, Codes{codes.shape, codes.bytes, scales});
  return &view;
}

const Checkpoint::Codes* Checkpoint::codes(const io::TensorView& tensor) const {
  const auto found = codes_.find(&tensor);
  return found == codes_.end() ? nullptr : &found->second;
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
    } else if (!prefix_.empty() && is_of_other_part(key)) {
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
  const auto found = std::ranges::find_if(families(), [&](const Family& family) {
    return std::ranges::any_of(
        family.marks, [&](std::string_view mark) { return checkpoint.find(mark) != nullptr; });
  });
  return found == families().end() ? nullptr : &*found;
}

}  // namespace kinema::weights
