#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "kinema/config/config.h"
#include "kinema/data/source.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/model_source/expert.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/training/step.h"

/// The network that a configuration trains, and its conditioning.
namespace kinema::model_source {

/// The model_index.json of the named pipeline, whose parts need not exist; nothing if no local
/// pipeline is named.
std::optional<sample::PipelineFolder> pipeline_index(const config::Config& config);

/// True if a run makes videos during the training.
bool makes_videos(const config::RunConfig& run);

/// Throws an Error if the pipeline has two experts and none is chosen, or has one and an expert is
/// chosen; if min_timestep and max_timestep are not a range, cross the boundary of one expert, or
/// leave one of both without timesteps.
Expert trained_expert(const config::Config& config);

/// The folder of a trained network, in its pipeline and in a checkpoint: `transformer`,
/// `transformer_2` for low noise, `unet`.
std::string trained_part(const networks::Network& network, const Expert& expert);
/// The same for the only or first network, with the name of its family's pipelines.
std::string single_part(const networks::Network& network);

/// Throws an Error if a run of one expert makes videos and the other expert does not exist.
void check_videos(const config::Config& config, const Expert& expert);

/// Throws an Error if model_type is not the transformer's type, or cannot be trained with these
/// settings. Returns warnings, one per line.
std::vector<std::string> check_model_type(const config::Config& config,
                                          const networks::Sizes& model);

/// The input of the network for which a configuration's clips are prepared.
struct PreparedInput {
  networks::NamedInput input;
  bool last_frame = false;  // it begins and ends with given frames
};
/// Nothing if the network has none, or is not on this machine.
std::optional<PreparedInput> prepared_input(const config::Loaded& loaded);

/// True if the image conditioning is concatenated to the latents' channels (model_type I2V).
bool has_image_condition(const config::Config& config);

}  // namespace kinema::model_source
