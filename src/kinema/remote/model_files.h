#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace kinema::remote {

/// What of a repository is wanted.
struct Wanted {
  /// Folders of a pipeline (`transformer`, `vae`, ...); empty: all that it has.
  std::vector<std::string> parts = {};
  /// One file by its path, and nothing else; empty: a model or pipeline.
  std::string file = {};
  /// Of a data set: chooses among all its paths, or throws an Error when none will do.
  std::function<std::vector<std::string>(std::vector<std::string>)> choose = {};
};

/// Of all paths of a repository, those that `wanted` needs: of a pipeline, model_index.json and
/// from each part the configuration, tokenizer files and weights in safetensors; of a lone model,
/// its configuration and weights. Other formats and precision variants are left out. A pipeline
/// without the parts that were asked for, or no safetensors, is an Error naming `source`.
std::vector<std::string> choose_files(const std::vector<std::string>& all, const Wanted& wanted,
                                      const std::string& source);

/// What of `wanted` is missing in a local folder: the path of the first file, or empty. Reads
/// model_index.json and the weights' indices. Of a data set only those are missed that other
/// files' names count.
std::string first_missing(const std::filesystem::path& folder, const Wanted& wanted);

/// The same of files that are known by name.
std::string first_missing(const std::filesystem::path& folder,
                          const std::vector<std::string>& names);

}  // namespace kinema::remote
