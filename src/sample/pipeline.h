#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "encoders/autoencoder.h"
#include "encoders/text_encoder.h"
#include "models/wan/transformer.h"
#include "pjrt/client.h"
#include "sample/denoiser.h"
#include "sample/pipeline_folder.h"
#include "sample/sizes.h"
#include "schedulers/schedule.h"

/// Text to video: prompts in, frames out.
namespace kinema::sample {

struct GenerateRequest {
  std::vector<std::string> prompts;
  std::string negative_prompt;
  int64_t num_frames = 81;
  int64_t height = 480;
  int64_t width = 832;
  int64_t num_inference_steps = 50;
  double guidance_scale = 5.0;
  /// For the low-noise expert; the same as guidance_scale when absent.
  std::optional<double> guidance_scale_2;
  uint64_t seed = 0;
  /// Videos denoised at once; the result does not depend on it but for rounding.
  int64_t batch_size = 1;
  bool two_passes = false;
  /// Instead of the folder's own schedule.
  std::optional<schedulers::ScheduleConfig> schedule;
  /// safetensors with `latents` (or one tensor of any name), f32 [n, c, f, h, w], n the number of
  /// prompts or 1: the starting noise instead of the seed's.
  std::filesystem::path initial_latents;
  /// Where the final latents go, as `latents` f32 [n, c, f, h, w]; empty writes none.
  std::filesystem::path save_latents;
};

struct GeneratedVideo {
  std::string prompt;
  HostArray frames;  // u8 [f, h, w, 3]
};

/// Seconds by part, for the report.
struct Timings {
  double load = 0;
  double text = 0;
  double compile = 0;
  double denoise = 0;
  double decode = 0;
  double total() const { return load + text + compile + denoise + decode; }
};

struct Generated {
  std::vector<GeneratedVideo> videos;
  VideoSizes sizes;
  schedulers::ScheduleConfig schedule;
  Timings timings;
  /// One line each: what was done otherwise than asked (`num_frames 80 is made 77`).
  std::vector<std::string> notes;
};

/// A text-to-video pipeline on one device.
class Pipeline {
 public:
  /// Throws what read_pipeline_folder and the model's configuration throw, and an Error when
  /// autoencoder or text encoder do not fit the transformer's channels or text_dim.
  Pipeline(const pjrt::Client& client, PipelineFolder folder, const wan::ModelOptions& options,
           std::unique_ptr<encoders::Autoencoder> autoencoder,
           std::unique_ptr<encoders::TextEncoder> text_encoder,
           runtime::ProgramOptions program_options = {});

  /// Makes one video a prompt. The observer is called after every step, for a progress bar.
  Generated generate(const GenerateRequest& request, const DenoiseObserver& observer = {});

  const encoders::Autoencoder& autoencoder() const { return *autoencoder_; }
  const encoders::TextEncoder& text_encoder() const { return *text_encoder_; }
  const PipelineFolder& folder() const { return experts_.folder(); }

 private:
  std::vector<DenoiseBatch> make_batches(const GenerateRequest& request, const VideoSizes& sizes);

  Experts experts_;
  StepPrograms programs_;
  std::unique_ptr<encoders::Autoencoder> autoencoder_;
  std::unique_ptr<encoders::TextEncoder> text_encoder_;
};

/// Starting noise of one video: N(0, 1), a pure function of (seed, index, shape).
HostArray initial_noise(uint64_t seed, int64_t index, const Dims& dims);

}  // namespace kinema::sample
