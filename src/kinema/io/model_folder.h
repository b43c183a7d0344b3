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
/// safetensors file or in shards with an index.
///
/// Opening checks the files against each other, not the tensors against a model: shapes and names
/// are the model's business.
class ModelFolder {
 public:
  /// Throws an Error when the config or the weights are missing or damaged, when the index names a
  /// shard outside the folder or one that is not there, or when index and shards differ.
  static ModelFolder open(const std::filesystem::path& folder);

  const std::string& path() const { return path_; }
  const Json& config() const { return config_; }
  /// All tensors, shard by shard in file order.
  const std::vector<const TensorView*>& tensors() const { return tensors_; }
  /// The tensor, or null.
  const TensorView* find(std::string_view name) const;
  /// The tensor; throws an Error that names the folder and what is missing.
  const TensorView& at(std::string_view name) const;
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  std::string path_;
  Json config_;
  std::vector<SafetensorsFile> files_;
  std::vector<const TensorView*> tensors_;
  std::map<std::string, const TensorView*, std::less<>> index_;
};

struct ModelFolderOptions {
  /// A shard is closed before it would pass this size; one file and no index when all fits.
  int64_t max_shard_bytes = int64_t{10} << 30;
  /// File names begin with it: `diffusion_pytorch_model` (diffusers) or `model` (transformers).
  std::string stem = "diffusion_pytorch_model";
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  /// Where several processes write together: who writes each entry, with numbers that do not fall,
  /// and which of them this is. Each has shards of its own; 0 writes the other files. Empty: all
  /// is this process's.
  std::vector<int64_t> owners = {};
  int64_t own = 0;
};

/// Writes tensors into a folder that is there, as `STEM.safetensors` or as shards with an index,
/// `STEM-00001-of-00002.safetensors`. Returns the names of all files, those of others too.
std::vector<std::string> write_shards(const std::filesystem::path& folder,
                                      std::span<const TensorEntry> entries,
                                      const ModelFolderOptions& options = {});

/// The files of write_shards, of what may also be one file of that name. Throws what
/// ModelFolder::open throws of them.
std::vector<SafetensorsFile> open_shards(const std::filesystem::path& single);

/// Writes `config.json` and the weights into `folder` (made when absent), file by file. Returns the
/// names of the files written, relative to the folder.
std::vector<std::string> write_model_folder(const std::filesystem::path& folder, const Json& config,
                                            std::span<const TensorEntry> entries,
                                            const ModelFolderOptions& options = {});

}  // namespace kinema::io
