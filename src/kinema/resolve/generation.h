#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/io/json.h"
#include "kinema/job/job.h"
#include "kinema/model_source/model_to_use.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/sample/output.h"
#include "kinema/sample/pipeline.h"

/// From a configuration to what the sampling room is asked.
namespace kinema::resolve {

/// The prompts of prompt_file, one a line, or the one prompt. Throws an Error that names the file,
/// and the line that is no text.
std::vector<std::string> read_prompts(const config::Loaded& loaded);

/// A line where prompts have what other programs read as more than words (text::prompt_syntax).
std::vector<std::string> prompt_notices(const config::Loaded& loaded);

/// Guidance alone: its scales and the negative prompts.
void ask_for_guidance(const config::Loaded& loaded, const networks::Network& network,
                      bool has_two_experts, sample::GenerateRequest& request);

/// Prompts, images, sizes, guidance and schedule. Reads the images, and tells the job what becomes
/// of those that are transparent or HDR.
sample::GenerateRequest make_request(const config::Loaded& loaded,
                                     const model_source::ModelToUse& model,
                                     const networks::Network& network, const Job& job = {});

/// Throws an Error where a sampler cannot make so many steps of the schedule.
void check_sampler_steps(int64_t steps, const schedulers::ScheduleConfig& schedule);

/// The videos of each prompt that per_device_batch_size or global_batch_size ask for on generate's
/// command line: a batch on this many devices, as in MaxDiffusion. Nothing where neither stands
/// there (in a file they are training's) or num_videos_per_prompt was given.
std::optional<int64_t> videos_of_batch(const config::Loaded& loaded, int64_t devices);
/// The request with as many videos of each prompt, and in one batch unless generate_batch_size was
/// given; a line about that, or nothing where they are not asked for in this way.
std::optional<std::string> apply_batch(const config::Loaded& loaded, const mesh::Placement& place,
                                       sample::GenerateRequest& request);

/// The line that a prompt was not given, or nothing.
std::vector<std::string> default_prompt_notice(const config::Loaded& loaded);

/// Where videos are written; empty: beside the model that made them.
std::string video_folder(const config::Config& config);
/// Whether the placement of every array is told.
bool debug_sharding(const config::Config& config);

/// What decides the shape of a denoising step, beside the network and its placement.
struct DenoisingSettings {
  int64_t batch = 1;  // videos at a time
  bool two_passes = false;
  bool keeps_keys = false;
};
DenoisingSettings denoising_settings(const config::Config& config);

/// Frames, height and width of a video, pixels.
struct VideoFormat {
  int64_t num_frames = 0;
  int64_t height = 0;
  int64_t width = 0;
};
VideoFormat video_format(const config::Config& config);

/// Autoencoder, text encoder and, where the folder has one, image encoder.
sample::PipelineParts make_parts(const config::Config& config,
                                 const model_source::ModelToUse& model,
                                 const networks::Sizes& transformer, const pjrt::Client& client,
                                 const Job& job);

/// What is written beside the mp4, and how; `flags` are the compiler's that were given.
sample::OutputOptions output_options(const config::Loaded& loaded,
                                     const model_source::ModelToUse& model, io::Json flags);

/// The keys that were given, with their values: read back as key=value words they make the same
/// configuration.
io::Json given_settings(const config::Loaded& loaded);

}  // namespace kinema::resolve
