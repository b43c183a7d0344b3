#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/core/dtype.h"
#include "kinema/job/job.h"

/// Transformers and LoRA files in the names and layout of another program: `kinema convert`.
namespace kinema::jobs {

struct ConvertOptions {
  /// diffusers, original, comfyui, fp8, int8, gguf; of a LoRA file the first three and kohya.
  std::string to;
  std::optional<DType> dtype;                   // each tensor keeps its own when absent
  int64_t max_shard_bytes = int64_t{10} << 30;  // of a folder's files
  JobOptions job;
};

struct ConvertResult {
  std::string source;  // what of the given path was converted
  std::string target;
};

/// Writes `source` (a folder of diffusers or of the Wan release, a pipeline, a checkpoint, a
/// safetensors file; a LoRA file or PEFT folder) as `target`, which must not be there yet. Of a
/// pipeline it is the network; a single file that holds a network and other models becomes, for
/// diffusers, the folder of a whole pipeline. Throws an Error where it is none of these; what was
/// begun is then removed. A checkpoint of both experts of Wan 2.2 becomes two: the low-noise one is
/// `TARGET_2`, before the ending.
ConvertResult convert(const std::string& source, const std::string& target,
                      const ConvertOptions& options, const Observer& observer);

}  // namespace kinema::jobs
