#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/io/json.h"
#include "kinema/job/job.h"
#include "kinema/model_source/selected_model.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/sample/output.h"
#include "kinema/sample/pipeline.h"

/// Turns a configuration into a request of the module `sample`.
namespace kinema::resolve {

/// A diffusion's schedule with the overrides of diffusion_scheduler_config. Throws an Error for a
/// key that the schedule does not have.
schedulers::ScheduleConfig with_scheduler_config(schedulers::ScheduleConfig schedule,
                                                 const config::GenerateConfig& g);

/// Sets only the guidance scales and negative prompts of a request; `schedule` is that of the
/// model, by which a distilled one is known.
void set_guidance(const config::Loaded& loaded, const networks::Network& network,
                  bool has_two_experts, const std::optional<schedulers::ScheduleConfig>& schedule,
                  sample::GenerateRequest& request, std::string_view pipeline_class = {});

/// Prompts, images, sizes, guidance and schedule. Reads the images, and logs how transparent and
/// HDR ones are converted.
sample::GenerateRequest make_request(const config::Loaded& loaded,
                                     const model_source::SelectedModel& model,
                                     const networks::Network& network, const Job& job = {});

/// Throws an Error if a sampler cannot make `steps` steps of the schedule.
void check_sampler_steps(int64_t steps, const schedulers::ScheduleConfig& schedule);

/// The number of videos per prompt from per_device_batch_size or global_batch_size on generate's
/// command line, for `devices` devices, as in MaxDiffusion. Nothing if neither is on the command
/// line (in a file they are training's keys) or num_videos_per_prompt was given.
std::optional<int64_t> videos_per_batch(const config::Loaded& loaded, int64_t devices);
/// Sets the request's videos per prompt to videos_per_batch, in one batch unless
/// generate_batch_size was given. Returns a log line, or nothing if the request is unchanged.
std::optional<std::string> apply_batch(const config::Loaded& loaded, const mesh::Placement& place,
                                       sample::GenerateRequest& request);

/// What `generate` writes and prints, in addition to sample::OutputOptions.
struct GenerateSettings {
  std::string video_folder;     // empty: next to the model that made the videos
  bool debug_sharding = false;  // the sharding of every array is printed
};
GenerateSettings generate_settings(const config::Config& config);

/// Settings that determine the shape of a denoising step, in addition to the network and its
/// placement.
struct DenoisingSettings {
  int64_t batch = 1;  // videos per batch
  bool two_passes = false;
  bool caches_keys = false;
  bool guess_mode = false;  // of ControlNets
};
DenoisingSettings denoising_settings(const config::Config& config);

/// A video's frames, and its height and width in pixels.
struct VideoFormat {
  int64_t num_frames = 0;
  int64_t segment_frames = 0;  // of Wan-Animate
  int64_t height = 0;
  int64_t width = 0;
};
VideoFormat video_format(const config::Config& config);

/// Autoencoder, text encoder and, if the folder has one, image encoder.
sample::PipelineParts make_parts(const config::Config& config,
                                 const model_source::SelectedModel& model,
                                 const networks::Sizes& transformer, const pjrt::Client& client,
                                 const Job& job);

/// The files that are written in addition to the mp4, and their format; `flags`: the compiler flags
/// that were given.
sample::OutputOptions output_options(const config::Loaded& loaded,
                                     const model_source::SelectedModel& model, io::Json flags);

/// The given keys with their values; as `key=value` arguments they make the same configuration.
io::Json given_settings(const config::Loaded& loaded);

}  // namespace kinema::resolve
