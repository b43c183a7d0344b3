#include "kinema/weights/checkpoint.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/weights/config.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

// A bundle of a whole pipeline in one file has these beside the transformer.
constexpr std::array<std::string_view, 5> kOtherParts{
    "vae.", "first_stage_model.", "text_encoders.", "cond_stage_model.", "conditioner."};

/// A tensor that every Wan transformer has, in both namings.
constexpr std::string_view kMark = "patch_embedding.weight";

std::vector<const io::TensorView*> views(const io::SafetensorsFile& file) {
  std::vector<const io::TensorView*> out;
  for (const io::TensorView& tensor : file.tensors()) {
    out.push_back(&tensor);
  }
  return out;
}

// What stands before the transformer's keys, by who wrote the file.
constexpr std::array<std::string_view, 5> kPrefixes{"model.diffusion_model.", "diffusion_model.",
                                                    "transformer.", "model.", "module."};

std::string prefix_of(const std::vector<const io::TensorView*>& tensors) {
  for (const std::string_view prefix : kPrefixes) {
    const std::string name = std::string(prefix) + std::string(kMark);
    if (std::ranges::any_of(tensors, [&](const io::TensorView* t) { return t->name == name; })) {
      return std::string(prefix);
    }
  }
  return "";
}

bool is_class(const Json& config, std::string_view name) {
  const Json* value = config.is_object() ? config.find("_class_name") : nullptr;
  return value != nullptr && value->is_string() && value->as_string() == name;
}

/// Sizes of one tensor, which must have so many axes.
const Dims& dims_of(const Checkpoint& checkpoint, const std::string& key, size_t axes) {
  const io::TensorView& view = checkpoint.at(key);
  check(view.shape.dims.size() == axes, "[weights] {}: `{}` is {} but must have {} axes",
        checkpoint.path(), view.name, to_string(view.shape), axes);
  return view.shape.dims;
}

int64_t count_layers(const Checkpoint& checkpoint) {
  int64_t layers = 0;
  while (checkpoint.find(fmt::format("blocks.{}.scale_shift_table", layers)) != nullptr) {
    ++layers;
  }
  check(layers > 0, "[weights] {} has no tensor `{}`, so it holds no Wan transformer",
        checkpoint.path(), checkpoint.name_in_file("blocks.0.scale_shift_table"));
  return layers;
}

wan::TransformerConfig config_from_shapes(const Checkpoint& checkpoint) {
  constexpr int64_t kHead = 128;  // of every released model
  const std::string embedder = "condition_embedder.";
  wan::TransformerConfig c;
  const Dims& patch = dims_of(checkpoint, "patch_embedding.weight", 5);
  const int64_t dim = patch[0];
  check(dim >= kHead && dim % kHead == 0,
        "[weights] {}: `{}` has width {}, which is no number of heads of {}\n"
        "  put a diffusers config.json beside the file, which says the size of its heads",
        checkpoint.path(), checkpoint.name_in_file("patch_embedding.weight"), dim, kHead);
  c.attention_head_dim = kHead;
  c.num_attention_heads = dim / kHead;
  c.in_channels = patch[1];
  c.patch_size = {patch[2], patch[3], patch[4]};
  const int64_t voxels = checked_elements({patch[2], patch[3], patch[4]});
  const int64_t out = dims_of(checkpoint, "proj_out.weight", 2)[0];
  check(voxels > 0 && out % voxels == 0,
        "[weights] {}: `{}` has {} rows, which patches of {}x{}x{} do not divide",
        checkpoint.path(), checkpoint.name_in_file("proj_out.weight"), out, patch[2], patch[3],
        patch[4]);
  c.out_channels = out / voxels;
  c.text_dim = dims_of(checkpoint, embedder + "text_embedder.linear_1.weight", 2)[1];
  c.freq_dim = dims_of(checkpoint, embedder + "time_embedder.linear_1.weight", 2)[1];
  c.ffn_dim = dims_of(checkpoint, "blocks.0.ffn.net.0.proj.weight", 2)[0];
  c.num_layers = count_layers(checkpoint);
  c.cross_attn_norm = checkpoint.find("blocks.0.norm2.weight") != nullptr;
  if (checkpoint.find(embedder + "image_embedder.norm1.weight") != nullptr) {
    c.image_dim = dims_of(checkpoint, embedder + "image_embedder.norm1.weight", 1)[0];
    c.added_kv_proj_dim = dim;
  }
  if (checkpoint.find(embedder + "image_embedder.pos_embed") != nullptr) {
    c.pos_embed_seq_len = dims_of(checkpoint, embedder + "image_embedder.pos_embed", 3)[1];
  }
  if (const Json* eps = checkpoint.config().is_object() ? checkpoint.config().find("eps") : nullptr;
      eps != nullptr) {
    c.eps = eps->as_number();
  }
  return c;
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
  check(extension != ".gguf",
        "[weights] {} is GGUF, whose quantised blocks are not read\n"
        "  take the bf16 or fp16 safetensors of the same model",
        path.string());
}

Checkpoint Checkpoint::open(const fs::path& path) {
  refuse_other_formats(path);
  Checkpoint out;
  out.path_ = path.string();
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    out.single_.push_back(io::SafetensorsFile::open(path));
    out.files_.push_back(&out.single_[0]);
    const fs::path beside = path.parent_path() / "config.json";
    if (fs::exists(beside, ignored)) {
      Json config = Json::read(beside);
      if (is_transformer(config)) {
        out.config_ = std::move(config);
      }
    }
    out.index(views(out.single_[0]));
    return out;
  }
  out.folder_ = io::ModelFolder::open(path);
  out.config_ = out.folder_->config();
  for (const io::SafetensorsFile& file : out.folder_->files()) {
    out.files_.push_back(&file);
  }
  out.index(out.folder_->tensors());
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

bool is_transformer(const Checkpoint& checkpoint) {
  if (checkpoint.config().is_object()) {
    return is_transformer(checkpoint.config()) || is_class(checkpoint.config(), "WanModel");
  }
  return checkpoint.find(kMark) != nullptr;
}

wan::TransformerConfig transformer_config(const Checkpoint& checkpoint) {
  if (checkpoint.config().is_object() && !is_class(checkpoint.config(), "WanModel")) {
    return parse_config(checkpoint.config());
  }
  wan::TransformerConfig config = config_from_shapes(checkpoint);
  try {
    wan::validate(config);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), checkpoint.path());
  }
  return config;
}

}  // namespace kinema::weights
