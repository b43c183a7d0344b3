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

/// Where the parts of a pipeline lie and what its configuration says.
struct PipelineFolder {
  std::filesystem::path folder;
  /// That of a family's pipeline (weights/family.h); empty without model_index.json.
  std::string class_name;
  /// Its videos begin with an image.
  bool of_images() const;
  /// The only transformer (or UNet), or the expert for high noise.
  std::filesystem::path transformer;
  /// The expert for low noise; empty for one transformer.
  std::filesystem::path transformer_2;
  /// Merged into the weights of `transformer` and of `transformer_2` when they are loaded.
  std::vector<weights::Adapter> adapters;
  std::vector<weights::Adapter> adapters_2;
  /// Steps with t >= boundary_ratio * num_train_timesteps belong to `transformer`, others to
  /// `transformer_2`.
  std::optional<double> boundary_ratio;
  /// One timestep for every token (Wan 2.2 TI2V).
  bool expand_timesteps = false;
  /// The scheduler's class in model_index.json, which is taken where scheduler_config.json names
  /// another, as diffusers does; empty where the pipeline has no scheduler.
  std::string scheduler_class;
  /// What `scheduler/` says; nothing where the pipeline has none.
  std::optional<schedulers::ScheduleConfig> schedule;
  /// A negative prompt that is not given is zeros, not the encoded empty text (SDXL).
  bool zeros_for_no_negative = false;
  // The other parts; empty where the pipeline does not list them.
  std::filesystem::path vae, text_encoder, tokenizer, image_encoder, image_processor;
  std::filesystem::path text_encoder_2, tokenizer_2;

  bool has_two_experts() const { return !transformer_2.empty(); }
};

/// Which of the parts that a pipeline lists must be there.
enum class PartsThere : uint8_t {
  ALL,
  SOME,  // of a hub's pipeline only what was wanted is here; paths of the others lead nowhere
};

/// Reads `model_index.json` and `scheduler/scheduler_config.json` of a diffusers folder. A folder
/// without `model_index.json` but with `transformer/` (a checkpoint of a training run) is a
/// pipeline of one transformer.
///
/// Throws an Error that names the missing part, a pipeline's or part's class that is not known, or
/// a scheduler setting that would change the result and is not supported.
PipelineFolder read_pipeline_folder(const std::filesystem::path& folder,
                                    PartsThere parts = PartsThere::ALL);

/// Where in a pipeline's folder, or a checkpoint's, it is said how to sample.
inline constexpr const char* kSchedulerConfig = "scheduler/scheduler_config.json";

/// Throws an Error that names both classes for a network of another family than the pipeline is of.
void check_family(const PipelineFolder& folder, const networks::Network& network);

/// Throws an Error where no sampler could go by the pipeline's scheduler_config.json; one that
/// needs another sampler (ScheduleConfig::unknown_class, unsupported) is not looked into.
void check_schedule(const PipelineFolder& folder);

/// What looks wrong without being certain, a line each: experts that seem to have changed places,
/// a scheduler that the pipeline's files call by two classes.
std::vector<std::string> warnings(const PipelineFolder& folder);

}  // namespace kinema::sample
