#include "kinema/weights/checkpoint.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/weights/family.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

// A bundle of a whole pipeline in one file has these beside the transformer.
constexpr std::array<std::string_view, 5> kOtherParts{
    "vae.", "first_stage_model.", "text_encoders.", "cond_stage_model.", "conditioner."};

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
      if (is_transformer_config(config)) {
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
