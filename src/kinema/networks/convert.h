#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/dtype.h"

namespace kinema::networks {

/// What a transformer is written as.
enum class Format {
  DIFFUSERS,  // a folder with config.json and, above a size, shards
  ORIGINAL,   // names of the release: one .safetensors file, or (Wan) a folder with config.json
  COMFYUI,    // one .safetensors file, those names after `model.diffusion_model.`
  FP8,        // the same, blocks' linear weights as float8_e4m3fn with one scale each: `scaled_fp8`
  INT8,       // the same with int8 and a scale an output
  GGUF,       // one .gguf file, original names, blocks' linear weights as Q8_0
};

/// The word of a format; throws an Error naming them for another word.
Format format_from_string(const std::string& name);

struct ConvertOptions {
  Format to = Format::DIFFUSERS;
  /// Of every tensor that is not written as codes; each keeps its own when absent (F32 where it was
  /// codes). GGUF: given, nothing is written as codes.
  std::optional<DType> dtype = {};
  /// Folders: no file is larger, unless one tensor is.
  int64_t max_shard_bytes = int64_t{10} << 30;
  /// Called before each tensor is written.
  std::function<void(int64_t done, int64_t total)> progress = {};
};

/// Writes the transformer or UNet in `source` (anything weights::Checkpoint::open takes) as
/// `target`, which must not be there yet. One tensor at a time is in memory. Values are those of
/// the source, rounded to nearest even where the dtype is narrower, or to the codes of FP8, INT8
/// and GGUF.
///
/// What the original release joins is joined. Throws an Error when the source is no whole network,
/// when the target would be read as another network (shapes alone tell no number of heads; a
/// config.json beside a file says it), when the format is Wan's alone (GGUF, an original folder),
/// or when a value that is finite is not so in the new dtype. What was begun is then removed.
void convert_transformer(const std::filesystem::path& source, const std::filesystem::path& target,
                         const ConvertOptions& options);

/// Writes all models that the single file `source` holds, a network and what weights::parts_in
/// names, as the folders that a pipeline of diffusers has them in: `target/unet`, `target/vae`.
/// Returns their names, the network's first. Throws as convert_transformer does.
std::vector<std::string> convert_parts(const std::filesystem::path& source,
                                       const std::filesystem::path& target,
                                       const ConvertOptions& options);

}  // namespace kinema::networks
