#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/core/dtype.h"
#include "kinema/job/job.h"

/// Transformers and LoRA files with the names and layout of another program: `kinema convert`.
namespace kinema::jobs {

struct ConvertOptions {
  /// diffusers, original, comfyui, fp8, int8 or gguf; for LoRA files the first three, or kohya.
  /// Empty: a pickle becomes a safetensors file with the same tensors under the same names.
  std::string to;
  std::optional<DType> dtype;                   // absent: each tensor keeps its dtype
  int64_t max_shard_bytes = int64_t{10} << 30;  // per file of a folder
  JobOptions job;
};

struct ConvertResult {
  std::string source;  // the part of the given path that was converted
  std::string target;
};

/// Writes `source` (a folder of diffusers or of the Wan release, a pipeline, a checkpoint, a
/// safetensors, GGUF or torch file; a LoRA file or PEFT folder) as `target`, which must not exist
/// yet. Only the network of a pipeline is converted, but a single file with a network and other
/// models becomes, for diffusers, a complete pipeline folder. Throws an Error for other sources,
/// and removes partial files. A checkpoint with both experts of Wan 2.2 becomes two files: the
/// low-noise one is `TARGET_2`, before the suffix.
ConvertResult convert(const std::string& source, const std::string& target,
                      const ConvertOptions& options, const Observer& observer);

}  // namespace kinema::jobs
