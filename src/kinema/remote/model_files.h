#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace kinema::remote {

/// The requested part of a repository.
struct Wanted {
  /// Folders of a pipeline (`transformer`, `vae`, ...); empty: all.
  std::vector<std::string> parts = {};
  /// A single file by its path; empty: a model or pipeline.
  std::string file = {};
  /// For a data set: selects from all its paths, or throws an Error if none fits.
  std::function<std::vector<std::string>(std::vector<std::string>)> choose = {};
};

/// The paths of a repository that `wanted` needs: of a pipeline, model_index.json and from each
/// part the configuration, tokenizer files and weights in safetensors; of a single model, its
/// configuration and weights. Other formats and precision variants are skipped. Throws an Error
/// with `source` for a pipeline without the requested parts, or without safetensors.
std::vector<std::string> choose_files(const std::vector<std::string>& all, const Wanted& wanted,
                                      const std::string& source);

/// The first file of `wanted` that is missing in a local folder, or empty. Reads model_index.json
/// and the weights' indices. Of a data set, only files of numbered series can be found missing.
std::string first_missing(const std::filesystem::path& folder, const Wanted& wanted);

/// The same for a list of files.
std::string first_missing(const std::filesystem::path& folder,
                          const std::vector<std::string>& names);

}  // namespace kinema::remote
