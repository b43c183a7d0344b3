#include "kinema/io/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/atomic_write.h"

namespace kinema::io {
namespace {

namespace fs = std::filesystem;

struct Weights {
  fs::path file;
  bool is_index = false;
};

/// `STEM.safetensors.index.json`, or, for a variant, `STEM.safetensors.index.fp16.json`.
bool ends_with_index(const std::string& name) {
  return name.ends_with(".json") && name.find(".safetensors.index.") != std::string::npos;
}

// The names that diffusers and transformers write have priority; another single safetensors file (a
// precision variant, for example) is accepted too.
Weights find_weights(const fs::path& folder) {
  for (const char* stem : {"diffusion_pytorch_model", "model"}) {
    const fs::path single = folder / (std::string(stem) + ".safetensors");
    const fs::path index = folder / (std::string(stem) + ".safetensors.index.json");
    if (fs::exists(index)) {
      return {index, true};
    }
    if (fs::exists(single)) {
      return {single, false};
    }
  }
  for (const char* stem :
       {"diffusion_pytorch_model", "model"}) {  // the variant that pipelines have
    const fs::path index = folder / (std::string(stem) + ".safetensors.index.fp16.json");
    if (fs::exists(index)) {
      return {index, true};
    }
    if (const fs::path single = folder / (std::string(stem) + ".fp16.safetensors");
        fs::exists(single)) {
      return {single, false};
    }
  }
  std::vector<fs::path> single;
  std::vector<fs::path> index;
  bool pickled = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (ends_with_index(name)) {
      index.push_back(entry.path());
    } else if (name.ends_with(".safetensors")) {
      single.push_back(entry.path());
    }
    pickled = pickled || name.ends_with(".bin") || name.ends_with(".pt");
  }
  if (index.size() == 1) {
    return {index[0], true};
  }
  if (single.empty()) {
    for (const char* name : {"diffusion_pytorch_model.bin", "pytorch_model.bin"}) {
      if (const fs::path bin_index = folder / (std::string(name) + ".index.json");
          fs::exists(bin_index)) {
        return {bin_index, true};
      }
      if (fs::exists(folder / name)) {
        return {folder / name, false};
      }
    }
  }
  check(
      single.size() <= 1,
      "[model_folder] {} has {} safetensors files, none with a name that tells which to take, and "
      "no index",
      folder.string(), single.size());
  check(!single.empty(),
        "[model_folder] {} has no weights: diffusion_pytorch_model.safetensors, its index, or "
        "model.safetensors was expected{}",
        folder.string(),
        pickled
            ? "\n  of .bin and .pt files, diffusion_pytorch_model.bin or pytorch_model.bin is read"
            : "");
  return {single[0], false};
}

// A shard is in the folder of its index: paths are errors.
void check_shard_name(const std::string& name, const std::string& index) {
  const char* end = index.ends_with(".bin.index.json") ? ".bin" : ".safetensors";
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                     name.ends_with(end);
  check(plain, "[model_folder] {}: the shard `{}` is not a file name inside the folder", index,
        name.substr(0, 120));
}

// Opens the shards of an index and compares both ways.
std::vector<TensorFile> open_indexed(const fs::path& index_path) {
  const Json index = Json::read(index_path);
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  for (const auto& [name, value] : index.at("weight_map").members()) {
    check_shard_name(value.as_string(), index_path.string());
    shard_of.emplace(name, value.as_string());
    shards.insert(value.as_string());
  }
  std::vector<TensorFile> files;
  for (const std::string& shard : shards) {
    const fs::path path = index_path.parent_path() / shard;
    check(fs::exists(path), "[model_folder] {} names the shard {}, which is not there",
          index_path.string(), shard);
    files.push_back(TensorFile::open(path));
    for (const TensorView& tensor : files.back().tensors()) {
      const auto entry = shard_of.find(tensor.name);
      check(entry != shard_of.end(), "[model_folder] {} holds tensor `{}`, which {} does not list",
            path.string(), tensor.name, index_path.filename().string());
      check(entry->second == shard, "[model_folder] tensor `{}` is in {} but {} says it is in {}",
            tensor.name, path.string(), index_path.filename().string(), entry->second);
    }
  }
  size_t found = 0;
  for (const TensorFile& file : files) {
    found += file.tensors().size();
  }
  if (found != shard_of.size()) {
    for (const auto& [name, shard] : shard_of) {
      const auto file =
          std::ranges::find_if(files, [&, &wanted = shard](const TensorFile& candidate) {
            return fs::path(candidate.path()).filename() == wanted;
          });
      check(file->find(name) != nullptr,
            "[model_folder] {} says tensor `{}` is in {}, but it is not (and {} others are not)",
            index_path.string(), name, shard, shard_of.size() - found - 1);
    }
  }
  return files;
}

struct WrittenShard {
  std::vector<const TensorEntry*> entries;
  int64_t owner = 0;
};

std::vector<WrittenShard> split(std::span<const TensorEntry> entries,
                                const ModelFolderOptions& options) {
  std::vector<WrittenShard> shards(1);
  int64_t bytes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const int64_t owner = options.owners.empty() ? options.own : options.owners.at(i);
    WrittenShard& last = shards.back();
    const int64_t size = entries[i].shape.bytes();
    if (!last.entries.empty() && (bytes + size > options.max_shard_bytes || owner != last.owner)) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().owner = owner;
    shards.back().entries.push_back(&entries[i]);
    bytes += size;
  }
  return shards;
}

// Weights of an earlier save under other names would be read instead of, or in addition to, the new
// ones.
void remove_stale(const fs::path& folder, const std::string& stem,
                  const std::vector<std::string>& written) {
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool weights =
        name.starts_with(stem) && (name.ends_with(".safetensors") || ends_with_index(name));
    if (weights && std::ranges::find(written, name) == written.end()) {
      stale.push_back(entry.path());
    }
  }
  for (const fs::path& path : stale) {
    fs::remove(path);
  }
}

}  // namespace

ModelFolder ModelFolder::open(const fs::path& folder) {
  std::error_code ignored;
  check(fs::exists(folder, ignored), "[model_folder] {} does not exist", folder.string());
  check(fs::is_directory(folder, ignored), "[model_folder] {} {}", folder.string(),
        not_a_folder(folder));
  check(fs::exists(folder / "config.json"), "[model_folder] {} has no config.json{}",
        folder.string(),
        fs::exists(folder / "model_index.json")
            ? "\n  it is a whole pipeline: give one of its folders, such as transformer/"
            : "");
  ModelFolder out;
  out.path_ = folder.string();
  out.config_ = Json::read(folder / "config.json");
  check(out.config_.is_object(), "[model_folder] {} must be a JSON object", out.config_.where());
  const Weights weights = find_weights(folder);
  if (weights.is_index) {
    out.files_ = open_indexed(weights.file);
  } else {
    out.files_.push_back(TensorFile::open(weights.file));
  }
  for (const TensorFile& file : out.files_) {
    for (const TensorView& tensor : file.tensors()) {
      out.tensors_.push_back(&tensor);
      out.index_.emplace(tensor.name, &tensor);
    }
  }
  return out;
}

const TensorView* ModelFolder::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

const TensorView& ModelFolder::at(std::string_view name) const {
  const TensorView* tensor = find(name);
  check(tensor != nullptr, "[model_folder] {} has no tensor `{}` among its {}", path_, name,
        tensors_.size());
  return *tensor;
}

std::vector<TensorFile> open_shards(const fs::path& single) {
  const fs::path index = single.string() + ".index.json";
  std::error_code ignored;
  if (!fs::exists(single, ignored) && fs::exists(index, ignored)) {
    return open_indexed(index);
  }
  std::vector<TensorFile> out;
  out.push_back(TensorFile::open(single));
  return out;
}

std::vector<std::string> write_shards(const fs::path& folder, std::span<const TensorEntry> entries,
                                      const ModelFolderOptions& options) {
  const std::vector<WrittenShard> shards = split(entries, options);
  std::vector<std::string> files;
  std::vector<Json::Member> weight_map;
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? options.stem + ".safetensors"
                                                : fmt::format("{}-{:05}-of-{:05}.safetensors",
                                                              options.stem, i + 1, shards.size());
    std::vector<TensorEntry> shard;
    for (const TensorEntry* entry : shards[i].entries) {
      shard.push_back(*entry);
      weight_map.emplace_back(entry->name, name);
      total += entry->shape.bytes();
    }
    if (shards[i].owner == options.own) {
      write_safetensors(folder / name, shard, options.metadata);
    }
    files.push_back(name);
  }
  if (shards.size() > 1) {
    const std::string name = options.stem + ".safetensors.index.json";
    Json index = Json::object();
    index.set("metadata", Json::object({{"total_size", total}}));
    index.set("weight_map", Json::object(std::move(weight_map)));
    if (options.own == 0) {
      write_file(folder / name, index.dump(2) + "\n");
    }
    files.push_back(name);
  }
  return files;
}

std::vector<std::string> write_model_folder(const fs::path& folder, const Json& config,
                                            std::span<const TensorEntry> entries,
                                            const ModelFolderOptions& options) {
  std::error_code error;
  fs::create_directories(folder, error);
  check(!error, "[model_folder] cannot create {}: {}", folder.string(), errno_text(error));
  std::vector<std::string> files = write_shards(folder, entries, options);
  files.emplace_back("config.json");
  if (options.own == 0) {
    write_file(folder / "config.json", config.dump(2) + "\n");
    remove_stale(folder, options.stem, files);
  }
  return files;
}

bool is_comfyui_folder(const std::filesystem::path& folder) {
  constexpr std::array<std::string_view, 8> kParts{
      "checkpoints", "diffusion_models", "unet",      "text_encoders", "clip",
      "loras",       "controlnet",       "embeddings"};
  std::error_code ignored;
  const auto is_there = [&](std::string_view part) {
    return std::filesystem::is_directory(folder / part, ignored);
  };
  return std::ranges::count_if(kParts, is_there) > 1 &&
         !std::filesystem::exists(folder / "model_index.json", ignored);
}

}  // namespace kinema::io
