#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/dtype.h"

namespace kinema::networks {

/// The format in which a transformer is written.
enum class Format {
  DIFFUSERS,  // a folder with config.json and, above a certain size, shards
  ORIGINAL,   // the release's names: one .safetensors file, or (Wan) a folder with config.json
  COMFYUI,    // one .safetensors file, the same names after `model.diffusion_model.`
  FP8,        // the same, blocks' linear weights as float8_e4m3fn with one scale each: `scaled_fp8`
  INT8,       // the same with int8 and one scale per output
  GGUF,       // one .gguf file, original names, blocks' linear weights as Q8_0
};

/// The format with this name; throws an Error that lists the names for another one.
Format format_from_string(const std::string& name);

struct ConvertOptions {
  Format to = Format::DIFFUSERS;
  /// Dtype of every tensor that is not written as codes; if absent, each keeps its dtype (F32 if it
  /// was codes). GGUF: if set, nothing is written as codes.
  std::optional<DType> dtype = {};
  /// Folders: maximum size of a file, unless one tensor is larger.
  int64_t max_shard_bytes = int64_t{10} << 30;
  /// Called before each tensor is written.
  std::function<void(int64_t done, int64_t total)> progress = {};
  /// Called with a log line about tensors that are not written as asked.
  std::function<void(const std::string& line)> notice = {};
};

/// Writes the transformer or UNet in `source` (anything that model_files::Checkpoint::open accepts)
/// as `target`, which must not exist. One tensor at a time is in memory. Values are those of the
/// source, rounded to nearest even in a smaller dtype, or to the codes of FP8, INT8 and GGUF.
/// Tensors that the original release joins are joined.
///
/// Throws an Error if the source is not a complete network, if the target would be read as another
/// network (shapes do not contain the number of heads; a config.json next to a file does), if the
/// format exists for Wan only (GGUF, an original folder), or if a finite value would become
/// infinite in the new dtype. An incomplete target is then removed.
void convert_transformer(const std::filesystem::path& source, const std::filesystem::path& target,
                         const ConvertOptions& options);

/// Writes all models in the single file `source`, a network and those of model_files::parts_in, as
/// the folders of a diffusers pipeline: `target/unet`, `target/vae`. Returns their names, the
/// network's first. Throws as convert_transformer does.
std::vector<std::string> convert_parts(const std::filesystem::path& source,
                                       const std::filesystem::path& target,
                                       const ConvertOptions& options);

}  // namespace kinema::networks
