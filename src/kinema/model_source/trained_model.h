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

/// Which network a configuration trains, and what it is shown.
namespace kinema::model_source {

/// What model_index.json of the named pipeline says, whether all its parts are here or not; nothing
/// where no pipeline of this machine is named.
std::optional<sample::PipelineFolder> pipeline_index(const config::Config& config);

/// Whether a run makes videos while it goes on.
bool makes_videos(const config::RunConfig& run);

/// Throws an Error when the pipeline has two experts and none is chosen, or one and one is; when
/// min_timestep and max_timestep are no range, or reach over the boundary of one expert, or leave
/// one of both without timesteps.
Expert trained_expert(const config::Config& config);

/// The folder of a network that is trained, in its pipeline and in a checkpoint: `transformer`,
/// `transformer_2` for low noise, `unet`.
std::string trained_part(const networks::Network& network, const Expert& expert);
/// The same of the only network, or the first of two: as the family's pipelines call it.
std::string part_of_one(const networks::Network& network);

/// Throws an Error when a run of one expert makes videos and the other expert is not here.
void check_videos(const config::Config& config, const Expert& expert);

/// Throws an Error when model_type is not what the transformer is, or cannot be trained with these
/// settings. Returns what looks wrong without being certain, a line each.
std::vector<std::string> check_model_type(const config::Config& config,
                                          const networks::Sizes& model);

/// True where the model is shown its images behind the latents' channels (model_type I2V).
bool has_image_condition(const config::Config& config);

}  // namespace kinema::model_source
