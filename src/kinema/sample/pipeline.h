#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/data/picture_sizes.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/sample/condition.h"
#include "kinema/sample/denoiser.h"
#include "kinema/sample/memory.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/sample/sizes.h"
#include "kinema/schedulers/schedule.h"

/// Prompts, and images for models that take them, in; frames out.
namespace kinema::sample {

/// Which videos of a request this process makes, where several share them out: each makes whole
/// batches, those in a row, so that every video has the bits that one process would give it.
struct VideoShare {
  int64_t index = 0;
  int64_t count = 1;
  /// The text encoder takes prompts together, and its states depend on which: it is given all.
  bool all_texts = false;
};

struct GenerateRequest {
  /// What is made, as messages call one of them: networks::Sizes::noun.
  std::string_view noun = "video";
  std::vector<std::string> prompts;
  /// What the second of two text encoders reads instead, one a prompt or none.
  std::vector<std::string> prompts_2;
  /// Absent: the empty text, or zeros where the pipeline says so (SDXL).
  std::optional<std::string> negative_prompt;
  std::optional<std::string> negative_prompt_2;
  /// Of all videos.
  GivenImages images;
  int64_t num_videos_per_prompt = 1;
  int64_t num_frames = 81;
  int64_t height = 480;
  int64_t width = 832;
  int64_t num_inference_steps = 50;
  double guidance_scale = 5.0;
  /// For the low-noise expert; the same as guidance_scale when absent. See is_guided.
  std::optional<double> guidance_scale_2;
  double guidance_rescale = 0.0;
  /// For networks that guidance was distilled into: that of a negative prompt, where one is given.
  double true_cfg_scale = 1.0;
  /// For networks that are told sizes; those of the negative prompt where they are others.
  data::PictureSizes picture_sizes;
  std::optional<data::PictureSizes> negative_picture_sizes;
  uint64_t seed = 0;
  /// Index of the first video: video i of the request is what it would be at first_index + i of a
  /// longer one.
  int64_t first_index = 0;
  /// Videos denoised at once; the result does not depend on it but for rounding.
  int64_t batch_size = 1;
  VideoShare share;
  /// False: no more than the latents are made.
  bool decodes = true;
  /// Prompt and negative prompt one after the other; done by itself where both at once do not fit.
  bool two_passes = false;
  /// Heights and the kind of model are filled in.
  ReuseSettings reuse;
  /// Instead of the folder's own schedule.
  std::optional<schedulers::ScheduleConfig> schedule;
  /// safetensors with `latents` (or one tensor of any name), f32 [n, c, f, h, w], n the number of
  /// videos or 1: the starting noise instead of the seed's,
  /// standard normal.
  std::filesystem::path initial_latents;
  /// Where the final latents go, as `latents` f32 [n, c, f, h, w]; empty writes none. Of a request
  /// that is shared out, who gathers them writes them (GenerateObserver::denoised, save_latents).
  std::filesystem::path save_latents;

  /// Of all processes.
  int64_t videos() const { return static_cast<int64_t>(prompts.size()) * num_videos_per_prompt; }
};

/// Videos in a row, by their place in the request.
struct VideoRange {
  int64_t first = 0;
  int64_t count = 0;
};
/// Those that the share with this index makes; none where there are fewer batches than shares.
VideoRange videos_of_share(const GenerateRequest& request, int64_t index);

struct GeneratedVideo {
  std::string prompt;
  int64_t index = 0;  // of the video; its noise is a function of seed and index
  HostArray latents;  // f32 [c, f, h, w], normalised
  HostArray frames;   // u8 [f, h, w, 3]
};

/// Seconds by part, for the report. Encoders load and compile when they are first used.
struct Timings {
  double load = 0;     // the transformers
  double text = 0;     // prompts to embeddings
  double image = 0;    // images to latents and tokens
  double compile = 0;  // the denoising step
  double denoise = 0;
  double decode = 0;
  double total() const { return load + text + image + compile + denoise + decode; }
};

struct Generated {
  std::vector<GeneratedVideo> videos;  // prompt by prompt
  VideoSizes sizes;
  schedulers::ScheduleConfig schedule;
  std::optional<double> flow_shift;  // of pictures of these sizes; none: a diffusion
  Condition condition = Condition::NONE;
  int64_t steps = 0;         // of all batches
  int64_t reused_steps = 0;  // of these, those that took something from earlier ones
  Timings timings;
  MemoryUse memory;
  /// Most that a device held at a time, on a CPU the process; 0 where the device does not say.
  int64_t peak_bytes = 0;
};

/// By how much a request is guided away from the negative prompt; not more than 1: it is not. Where
/// guidance was distilled into the network that is told its scale, and a negative prompt has one of
/// its own.
double classifier_free_scale(const GenerateRequest& request, const networks::Sizes& network);

/// What stands around the transformers. Shared: several pipelines may have one text encoder.
struct PipelineParts {
  std::shared_ptr<const encoders::Autoencoder> autoencoder;
  std::shared_ptr<const encoders::TextEncoder> text_encoder;
  std::shared_ptr<const encoders::ImageEncoder> image_encoder;  // null: none
};

/// Who wants to hear of what while a video is made; every function may be empty.
struct GenerateObserver {
  /// One line: what is done otherwise than asked (`num_frames 80 is made 81`). Called before the
  /// work begins.
  std::function<void(const std::string& note)> note = {};
  /// Over a mesh, before the steps are compiled: how the transformer's batch lies on it.
  std::function<void(const std::string& text)> layout = {};
  /// Over a mesh, once the steps are compiled: the report of debug_sharding. Not made when empty.
  std::function<void(const std::vector<std::string>& lines)> sharding = {};
  /// Once everything is compiled and nothing is loaded: what it will take.
  std::function<void(const MemoryUse& memory)> memory = {};
  /// Before the first step: what the transformer is given, and frames of a video that is made.
  std::function<void(std::span<const DenoiseBatch> batches, int64_t num_frames)> encoded = {};
  /// After each step.
  DenoiseObserver step = {};
  /// Before the first video is decoded: videos without frames.
  std::function<void(std::span<const GeneratedVideo> videos)> denoised = {};
  /// After each video that was decoded.
  std::function<void(int64_t done, int64_t total)> decoded = {};
};

struct PipelineOptions {
  nn::ModelOptions model;
  runtime::ProgramOptions program;
  /// Where compiled steps are kept, for several pipelines that have steps in common; its own when
  /// null.
  std::shared_ptr<StepPrograms> programs = {};
  /// As if so many bytes of device memory were free; asks the device when absent.
  std::optional<int64_t> available_bytes = {};
  /// Text and image encoders go when the first request's prompts are encoded: there is no other.
  /// Without it they stay for the next one, where there is room.
  bool releases_encoders = false;
  /// The transformers that Pipeline::lend brings the parameters of.
  std::vector<LentTransformer> lent = {};
  /// For processes that share the devices, and make the same calls: what is wrong in this one
  /// (empty: nothing) in, what is wrong in the first in which something is out. What may end in one
  /// and not in others is asked so, and ends in all.
  std::function<std::string(const std::string& problem)> agree = {};
};

/// Writes latents f32 [c, f, h, w] of as many videos as GenerateRequest::save_latents says.
void save_latents(const std::filesystem::path& path, std::span<const HostArray* const> latents);

/// A video pipeline on one device, or with its transformers split over the devices of a mesh: text
/// to video, image to video (through CLIP or not), first and last frame, one transformer or two
/// experts, and TI2V, by what the folder holds.
class Pipeline {
 public:
  /// Throws what the configurations' readers throw, and an Error when the autoencoder does not fit
  /// the transformer's channels.
  Pipeline(const runtime::Devices& devices, PipelineFolder folder, PipelineParts parts,
           PipelineOptions options = {});

  /// The lent transformers of the videos to come, see Experts::lend.
  void lend(LentParameters parameters) { experts_.lend(std::move(parameters)); }

  /// Throws what generate would before it computes anything.
  void verify(const GenerateRequest& request, const GenerateObserver& observer = {}) const;

  /// Makes num_videos_per_prompt videos a prompt. Everything that can be checked without computing
  /// is checked first, then the compiled step's memory, then the work begins.
  Generated generate(const GenerateRequest& request, const GenerateObserver& observer = {});

  const encoders::Autoencoder& autoencoder() const { return *parts_.autoencoder; }
  const encoders::TextEncoder& text_encoder() const { return *parts_.text_encoder; }
  const PipelineFolder& folder() const { return experts_.folder(); }

 private:
  struct Plan;
  /// What the transformer is told: prompts, then the negative one, and CLIP's tokens.
  struct Context {
    HostArray text;    // f32 [n, t, d]
    HostArray pooled;  // f32 [n, p], or no bytes
    HostArray image;   // f32 [n, d], or no bytes
  };
  Plan plan(const GenerateRequest& request, const GenerateObserver& observer) const;
  Context encode(const GenerateRequest& request, const Plan& plan, Timings& timings) const;
  void make_room(Plan& plan, const GenerateRequest& request, const GenerateObserver& observer);
  MemoryUse memory_use(const Plan& plan, const GenerateRequest& request) const;
  std::vector<encoders::Prompt> texts(const Plan& plan, const GenerateRequest& request) const;
  void release_encoders() const;
  static std::vector<DenoiseBatch> make_batches(const GenerateRequest& request, const Plan& plan,
                                                const Context& context, const HostArray& condition);
  int64_t free_bytes(const Plan& plan) const;
  void check_together(const std::function<void()>& work) const;
  bool all_say(bool own) const;

  Experts experts_;
  std::shared_ptr<StepPrograms> programs_;
  PipelineParts parts_;
  PipelineOptions options_;
};

}  // namespace kinema::sample
