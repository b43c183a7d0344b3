#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/networks/network.h"
#include "kinema/schedulers/schedule.h"
#include "kinema/weights/lora.h"

namespace kinema::sample {

/// A ControlNet: its folder or file, and the kind of each picture that it follows; 0 where it has
/// no kinds.
struct ControlFolder {
  std::filesystem::path path;
  std::vector<int64_t> types{0};
};

/// The folders of a pipeline's parts, and its configuration.
struct PipelineFolder {
  std::filesystem::path folder;
  /// A pipeline class of a family (model_files/family.h); empty without model_index.json.
  std::string class_name;
  /// True for pipelines that generate videos from a first image.
  bool of_images() const;
  /// The only transformer (or UNet), or the high-noise expert.
  std::filesystem::path transformer;
  /// The low-noise expert; empty if there is one transformer.
  std::filesystem::path transformer_2;
  /// Attached to `transformer`.
  std::vector<ControlFolder> controlnets;
  /// Merged into the weights of `transformer` and of `transformer_2` when they are loaded.
  std::vector<weights::Adapter> adapters;
  std::vector<weights::Adapter> adapters_2;
  /// Steps with t >= boundary_ratio * num_train_timesteps belong to `transformer`, others to
  /// `transformer_2`.
  std::optional<double> boundary_ratio;
  /// One timestep per token (Wan 2.2 TI2V).
  bool expand_timesteps = false;
  /// The scheduler's class in model_index.json, which overrides that of scheduler_config.json as in
  /// diffusers; empty if the pipeline has no scheduler.
  std::string scheduler_class;
  /// The configuration in `scheduler/`; nothing if the pipeline has none.
  std::optional<schedulers::ScheduleConfig> schedule;
  /// Without a negative prompt, zeros replace the encoded empty text (SDXL).
  bool force_zeros_for_empty_prompt = false;
  // The other parts; empty if the pipeline does not list them.
  std::filesystem::path vae, text_encoder, tokenizer, image_encoder, image_processor;
  std::filesystem::path text_encoder_2, tokenizer_2;

  bool has_two_experts() const { return !transformer_2.empty(); }
};

/// The listed parts that must exist.
enum class RequiredParts : uint8_t {
  ALL,
  SOME,  // only the parts that were downloaded from the hub; other paths do not exist
};

/// Reads `model_index.json` and `scheduler/scheduler_config.json` of a diffusers folder. A folder
/// without `model_index.json` but with `transformer/` (a checkpoint of a training run) is a
/// pipeline of one transformer.
///
/// Throws an Error for a missing part, an unknown class of the pipeline or of a part, and an
/// unsupported scheduler setting that would change the result.
PipelineFolder read_pipeline_folder(const std::filesystem::path& folder,
                                    RequiredParts parts = RequiredParts::ALL);

/// The scheduler's configuration in the folder of a pipeline or of a checkpoint.
inline constexpr const char* kSchedulerConfig = "scheduler/scheduler_config.json";

/// Throws an Error with both classes if the network's family is not the pipeline's.
void check_family(const PipelineFolder& folder, const networks::Network& network);

/// Throws an Error if no sampler supports the pipeline's scheduler_config.json. If another sampler
/// is required (ScheduleConfig::unknown_class, unsupported), nothing is checked.
void check_schedule(const PipelineFolder& folder);

/// Warnings about possible mistakes: experts that seem to be exchanged, different scheduler classes
/// in the pipeline's files.
std::vector<std::string> warnings(const PipelineFolder& folder);

}  // namespace kinema::sample
