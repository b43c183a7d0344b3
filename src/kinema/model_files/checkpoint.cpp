#include "kinema/model_files/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/model_files/cut.h"
#include "kinema/model_files/file_names.h"
#include "kinema/model_files/nf4.h"
#include "kinema/model_files/scaled_weights.h"
#include "kinema/model_files/stored.h"
#include "kinema/models/kl_autoencoder/config_file.h"

namespace kinema::model_files {
namespace {

namespace fs = std::filesystem;
using io::Json;

template <typename File>
std::vector<const io::TensorView*> views(const File& file) {
  std::vector<const io::TensorView*> out;
  for (const io::TensorView& tensor : file.tensors()) {
    out.push_back(&tensor);
  }
  return out;
}

/// Throws an Error for a file whose metadata names another architecture.
void check_architecture(const io::GgufFile& file, std::string_view part) {
  constexpr std::string_view kKey = "general.architecture";
  constexpr std::array kOthers{"sd3",        "aura",      "ltxv",    "hyvid", "cosmos",
                               "t5",         "llama",     "hidream", "gemma", "qwen2vl",
                               "qwen_image", "t5encoder", "clip"};
  const auto found = file.texts().find(std::string(kKey));
  if (!part.empty() && found != file.texts().end() &&
      (found->second == "t5" || found->second == "t5encoder")) {
    return;
  }
  check(found == file.texts().end() || std::ranges::count(kOthers, found->second) == 0,
        "[weights] {}: {} is `{}`, expected `wan`, `flux`, `lumina2` (Z-Image), `sdxl`, `sd1` or "
        "`sd2`\n  take a file "
        "of the model "
        "that is meant",
        file.path(), kKey, found == file.texts().end() ? "" : found->second);
}

/// The width of a bias's weight, or of the weight itself.
int64_t columns_of(const io::TensorView& tensor, const std::string& path,
                   const std::function<const io::TensorView*(const std::string&)>& find_tensor) {
  const io::TensorView* weight = &tensor;
  if (tensor.name.ends_with(".bias")) {
    const std::string name = tensor.name.substr(0, tensor.name.size() - 4) + "weight";
    weight = find_tensor(name);
    check(weight != nullptr, "[weights] {}: `{}` is there without `{}`, expected both", path,
          tensor.name, name);
  }
  check(weight->shape.rank() == 2, "[weights] {}: `{}` is {}, expected a matrix", path,
        weight->name, to_string(weight->shape));
  return weight->shape.dims[1];
}

std::string_view word_of(std::string_view part) {
  return part == kVae            ? "autoencoder that is known"
         : part == kTextEncoder  ? "text encoder (CLIP-L, UMT5 or Qwen3)"
         : part == kTextEncoder2 ? "second text encoder (CLIP-G or T5)"
                                 : part;
}

/// Between the two paths of laid_over.
constexpr std::string_view kOver = " with module ";

}  // namespace

fs::path laid_over(const fs::path& network, const fs::path& module) {
  return network.string() + std::string(kOver) + module.string();
}

std::vector<fs::path> layers_of(const fs::path& path) {
  std::error_code ignored;
  const size_t at = path.string().find(kOver);
  if (at == std::string::npos || fs::exists(path, ignored)) {
    return {path};
  }
  return {path.string().substr(0, at), path.string().substr(at + kOver.size())};
}

namespace {

/// True for the config of a T5 or UMT5, or of a text encoder that does not name its class.
bool may_be_t5(const Json& config) {
  const Json* type = config.is_object() ? config.find("model_type") : nullptr;
  return type == nullptr || !type->is_string() || type->as_string().ends_with("t5");
}

}  // namespace

Json adjacent_config(const fs::path& file, std::string_view part, const NameTable* names) {
  const auto family =
      std::ranges::find_if(families(), [&](const Family& each) { return each.names == names; });
  const std::string_view own = !part.empty()                ? part
                               : family != families().end() ? family->part
                               : names != nullptr           ? kVae
                                                            : "";
  const bool is_t5 = names == &kT5FileNames;
  // A T5 alone is the first text encoder of Wan, but the second of Flux.
  for (const fs::path& place : {file.parent_path(), file.parent_path() / own,
                                file.parent_path() / (is_t5 ? kTextEncoder2 : own)}) {
    std::error_code ignored;
    if (!fs::exists(place / "config.json", ignored)) {
      continue;
    }
    // The config of another model of the pipeline says nothing about this one.
    Json config = Json::read(place / "config.json");
    const Family* said = family_of_config(config);
    const bool is_network = own.empty() || family != families().end();
    const Json* name = config.is_object() ? config.find("_class_name") : nullptr;
    const std::string_view own_class =
        names == &kWanVaeNames ? "AutoencoderKLWan" : kl_autoencoder::kClassName;
    const bool is_vae = name != nullptr && name->is_string() && name->as_string() == own_class;
    const bool is_control =
        name != nullptr && name->is_string() && name->as_string().starts_with("ControlNet");
    // Of tensors that have the same names in every program, so that there is no table for them.
    const bool is_control_module = names == nullptr && name != nullptr && name->is_string() &&
                                   name->as_string().ends_with("ControlNetModel");
    const bool fits =
        names == &kControlNetNames ? is_control
        : is_control_module        ? true
        : is_network               ? said != nullptr && is_transformer_config(config)
        : own == kVae              ? is_vae
                      : said == nullptr && !is_vae && !is_control && (!is_t5 || may_be_t5(config));
    if (fits) {
      return config;
    }
  }
  return {};
}

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

Checkpoint::Checkpoint() : names_(std::make_shared<const FileNames>()) {}

Checkpoint Checkpoint::open(const fs::path& path, std::string_view part) {
  std::error_code ignored;
  if (const std::vector<fs::path> layers = layers_of(path); layers.size() > 1) {
    Checkpoint network = open(layers[0], part);
    network.lay_over(open(layers[1]));
    return network;
  }
  Checkpoint out;
  out.path_ = path.string();
  const bool is_cut = fs::is_regular_file(path.string() + ".index.json", ignored);
  if (fs::is_regular_file(path, ignored) || is_cut) {
    if (!is_cut && is_gguf(path)) {
      out.gguf_ = io::open_gguf(path);
      check_architecture(out.gguf_.front(), part);
    } else {
      out.single_ = io::open_shards(path);
      for (const io::TensorFile& file : out.single_) {
        out.files_.push_back(&file);
      }
    }
    std::vector<const io::TensorView*> all;
    for (const io::GgufFile& file : out.gguf_) {
      const std::vector<const io::TensorView*> part = views(file);
      all.insert(all.end(), part.begin(), part.end());
    }
    for (const io::TensorFile& file : out.single_) {
      const std::vector<const io::TensorView*> part = views(file);
      all.insert(all.end(), part.begin(), part.end());
    }
    out.read(all, part);
    out.config_ = adjacent_config(path, part, out.names_->table);
    out.leave_out_idle_refiner();
    check(part.empty() || out.names_->table != nullptr, "[weights] {} holds no {}{}", out.path_,
          word_of(part), part == kVae ? "\n  vae_file=FILE takes it from elsewhere" : "");
    return out;
  }
  out.folder_ = io::ModelFolder::open(path);
  out.config_ = out.folder_->config();
  for (const io::TensorFile& file : out.folder_->files()) {
    out.files_.push_back(&file);
  }
  out.read(out.folder_->tensors(), part);
  return out;
}

void Checkpoint::lay_over(Checkpoint module) {
  for (const Entry& entry : module.tensors_) {
    check(find(entry.key) == nullptr,
          "[weights] {} has `{}`, which {} has too: expected a module, with the tensors that are "
          "laid over those of a network alone",
          module.path_, entry.view->name, path_);
    index_.emplace(entry.key, entry.view);
    tensors_.push_back(entry);
  }
  path_ = laid_over(path_, module.path_).string();
  module_ = std::make_shared<const Checkpoint>(std::move(module));
}

/// Version 2.0 of Z-Image's ControlNet, which was published as a file, has a refiner that was never
/// trained, so that its first projection is zero, and is not run.
void Checkpoint::leave_out_idle_refiner() {
  constexpr std::string_view kRefiner = "control_noise_refiner.";
  const io::TensorView* first = find(std::string(kRefiner) + "0.before_proj.weight");
  if (config_.is_object() || first == nullptr ||
      std::ranges::any_of(first->bytes, [](std::byte byte) { return byte != std::byte{0}; })) {
    return;
  }
  std::erase_if(tensors_, [&](const Entry& entry) { return entry.key.starts_with(kRefiner); });
  std::erase_if(index_, [&](const auto& entry) { return entry.first.starts_with(kRefiner); });
}

void Checkpoint::read(const std::vector<const io::TensorView*>& tensors, std::string_view part) {
  names_ = std::make_shared<const FileNames>(find_names(tensors, part));
  index(with_scales(tensors));
}

Checkpoint::Checkpoint(const io::ModelFolder& folder) : Checkpoint() {
  path_ = folder.path();
  config_ = folder.config();
  for (const io::TensorView* tensor : folder.tensors()) {
    index_.emplace(tensor->name, tensor);
    tensors_.push_back({tensor->name, tensor});
  }
  for (const io::TensorFile& file : folder.files()) {
    files_.push_back(&file);
  }
}

void Checkpoint::check_intact() const {
  for (const io::TensorFile* file : files_) {
    file->check_intact();
  }
  for (const io::GgufFile& file : gguf_) {
    file.check_intact();
  }
  if (module_) {
    module_->check_intact();
  }
}

void Checkpoint::check_finite() const {
  for (const io::TensorFile* file : files_) {
    for (const io::TensorView& tensor : file->tensors()) {
      check(
          !names_->is_of_model(tensor.name) || all_finite(tensor.bytes, tensor.shape.dtype),
          "[weights] {}: `{}` {} holds values that are infinite or NaN\n  download the file again",
          path_, tensor.name, to_string(tensor.shape));
    }
    file->check_intact();
  }
  for (const io::GgufFile& file : gguf_) {
    file.check_scales();
  }
  if (module_) {
    module_->check_finite();
  }
}

/// The tensors without scales; codes that have a scale become their values. ComfyUI marks such
/// files with a tensor `scaled_fp8`, or each layer with its format. Scales of activations are not
/// used.
std::vector<const io::TensorView*> Checkpoint::with_scales(
    std::span<const io::TensorView* const> all) {
  std::vector<const io::TensorView*> tensors;
  std::ranges::copy_if(all, std::back_inserter(tensors),
                       [&](const io::TensorView* t) { return names_->is_of_model(t->name); });
  ScaledWeights scaled(tensors, path_);
  for (const io::TensorFile* file : files_) {
    scaled.add_formats(*file, names_->prefix);
  }
  scaled.check_all(tensors);
  four_bits_ = std::make_shared<const FourBitWeights>(tensors, path_);
  std::vector<const io::TensorView*> out;
  for (const io::TensorView* tensor : tensors) {
    if (const io::TensorView* decoded = four_bits_->decoded(tensor->name)) {
      out.push_back(decoded);
      continue;
    }
    if (four_bits_->is_beside(tensor->name)) {
      continue;
    }
    if (const auto stored = scaled.nvfp4_of(tensor->name)) {
      out.push_back(&made_.emplace_back(nvfp4_view(stored->parts, stored->layout, path_)));
      continue;
    }
    if (!ScaledWeights::is_beside(tensor->name)) {
      const io::TensorView* scale = scaled.scale_of(tensor->name);
      out.push_back(scale == nullptr ? tensor : decoded(*tensor, *scale));
    }
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
          "[weights] {}: a scale in `{}` is {}, expected finite numbers above 0\n  the file is "
          "corrupt: download it again",
          path_, scale.name, value);
  }
  const io::TensorView& view = made_.emplace_back(
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
  if (found == codes_.end()) {
    return module_ ? module_->codes(tensor) : nullptr;
  }
  return &found->second;
}

void Checkpoint::add(std::string key, const io::TensorView* view) {
  check(index_.emplace(key, view).second,
        "[weights] {}: `{}` is another name of `{}`, which is already there", path_, view->name,
        key);
  tensors_.push_back({std::move(key), view});
}

void Checkpoint::index(const std::vector<const io::TensorView*>& tensors) {
  const auto find_tensor = [&](const std::string& name) -> const io::TensorView* {
    const auto found = std::ranges::find_if(
        tensors, [&](const io::TensorView* tensor) { return tensor->name == name; });
    return found == tensors.end() ? nullptr : *found;
  };
  for (const io::TensorView* tensor : tensors) {
    const std::string key = names_->without_prefix(tensor->name);
    const std::vector<Piece> pieces = names_->pieces(key);
    if (pieces.empty()) {
      add(key, tensor);
    }
    for (const Piece& piece : pieces) {
      const auto rows =
          rows_of(*tensor, piece, path_, [&] { return columns_of(*tensor, path_, find_tensor); });
      add(piece.name, rows ? rows_from(*tensor, *rows) : transposed_from(*tensor, piece));
    }
  }
}

/// Rows of a tensor of the file. Rows of codes are codes, with their scales.
const io::TensorView* Checkpoint::rows_from(const io::TensorView& tensor, const Rows& rows) {
  io::TensorView& view = made_.emplace_back(rows_view(tensor, rows));
  if (const Codes* all = codes(tensor)) {
    Codes own{{all->shape.dtype, view.shape.dims}, view.bytes, all->scales};
    const auto scales = all->scales.as<float>();
    if (scales.size() > 1) {
      own.scales = HostArray::f32({rows.count}, scales.subspan(static_cast<size_t>(rows.first),
                                                               static_cast<size_t>(rows.count)));
    }
    view.decode = [bytes = own.bytes, dtype = own.shape.dtype,
                   scales = own.scales](std::span<float> values) {
      decode_stored(bytes, dtype, scales.as<float>(), values);
    };
    codes_.emplace(&view, std::move(own));
  }
  return &view;
}

/// A tensor of the file in another order or shape, or unchanged.
const io::TensorView* Checkpoint::transposed_from(const io::TensorView& tensor,
                                                  const Piece& piece) {
  std::optional<io::TensorView> turned = transposed_view(tensor, piece, path_);
  if (!turned) {
    return &tensor;
  }
  const io::TensorView& view = made_.emplace_back(std::move(*turned));
  if (view.decode && !tensor.decode) {
    floats_.emplace(&view, tensor.shape.dtype);
  } else if (const Codes* all = codes(tensor); all != nullptr && piece.cut == Cut::LINEAR) {
    codes_.emplace(&view, Codes{{all->shape.dtype, view.shape.dims}, all->bytes, all->scales});
  }
  return &view;
}

const std::string& Checkpoint::prefix() const { return names_->prefix; }

Naming Checkpoint::naming() const { return names_->naming; }

DType Checkpoint::float_type(const io::TensorView& tensor) const {
  const auto found = floats_.find(&tensor);
  if (found == floats_.end()) {
    return module_ ? module_->float_type(tensor) : tensor.shape.dtype;
  }
  return found->second;
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
  return module_ && module_->find(key) != nullptr ? module_->name_in_file(key)
                                                  : names_->in_file(key);
}

bool is_transformer_config(const Json& config) {
  const Family* family = family_of_config(config);
  return family != nullptr && config.at("_class_name").as_string() == family->transformer_class;
}

bool is_original_config(const Json& config) {
  const Family* family = family_of_config(config);
  return family != nullptr && family->has_original_class(config.at("_class_name").as_string());
}

bool is_control_module(const Checkpoint& checkpoint) {
  return checkpoint.find("control_all_x_embedder.2-1.weight") != nullptr;
}

const Family* find_family(const Checkpoint& checkpoint) {
  if (checkpoint.config().is_object() && checkpoint.module() == nullptr) {
    return family_of_config(checkpoint.config());
  }
  return family_with([&](std::string_view mark) { return checkpoint.find(mark) != nullptr; });
}

}  // namespace kinema::model_files
