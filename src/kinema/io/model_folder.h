#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::io {

/// One model of a diffusers or transformers pipeline: `config.json` and its weights, in one
/// safetensors file or in shards with an index, or without such files in those of torch
/// (`pytorch_model.bin`, read as PickleFile).
///
/// Opening checks the files against each other, not the tensors against a model.
class ModelFolder {
 public:
  /// Throws an Error if the config or the weights are missing or corrupt, if the index names a
  /// shard outside the folder or a missing one, or if index and shards differ.
  static ModelFolder open(const std::filesystem::path& folder);

  const std::string& path() const { return path_; }
  const Json& config() const { return config_; }
  /// All tensors, shard by shard in file order.
  const std::vector<const TensorView*>& tensors() const { return tensors_; }
  /// The tensor, or null.
  const TensorView* find(std::string_view name) const;
  /// The tensor; throws an Error with the folder and the missing name.
  const TensorView& at(std::string_view name) const;
  const std::vector<TensorFile>& files() const { return files_; }

 private:
  std::string path_;
  Json config_;
  std::vector<TensorFile> files_;
  std::vector<const TensorView*> tensors_;
  std::map<std::string, const TensorView*, std::less<>> index_;
};

struct ModelFolderOptions {
  /// Maximum size of a shard; if everything fits, one file without an index.
  int64_t max_shard_bytes = int64_t{10} << 30;
  /// Prefix of file names: `diffusion_pytorch_model` (diffusers) or `model` (transformers).
  std::string stem = "diffusion_pytorch_model";
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  /// If several processes write together: the process of each entry, ascending, and the rank of
  /// this process. Each has separate shards; process 0 writes the other files. Empty: this process
  /// writes everything.
  std::vector<int64_t> owners = {};
  int64_t own = 0;
};

/// Writes tensors into an existing folder, as `STEM.safetensors` or as shards with an index,
/// `STEM-00001-of-00002.safetensors`. Returns the names of all files, including those of other
/// processes.
std::vector<std::string> write_shards(const std::filesystem::path& folder,
                                      std::span<const TensorEntry> entries,
                                      const ModelFolderOptions& options = {});

/// The files of write_shards, by the name of the single file, whether sharded or not. Throws the
/// Errors of ModelFolder::open.
std::vector<TensorFile> open_shards(const std::filesystem::path& single);

/// Writes `config.json` and the weights into `folder` (created if missing), file by file. Returns
/// the names of the written files, relative to the folder.
std::vector<std::string> write_model_folder(const std::filesystem::path& folder, const Json& config,
                                            std::span<const TensorEntry> entries,
                                            const ModelFolderOptions& options = {});

/// True for ComfyUI's folder `models`: it has some of its subfolders of weights.
bool is_comfyui_folder(const std::filesystem::path& folder);

}  // namespace kinema::io
