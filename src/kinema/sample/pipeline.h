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
#include "kinema/sample/control.h"
#include "kinema/sample/denoiser.h"
#include "kinema/sample/memory.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/sample/sizes.h"
#include "kinema/sample/start.h"
#include "kinema/schedulers/schedule.h"

/// Prompts, and for some models images, to frames.
namespace kinema::sample {

/// The videos of a request that this process generates, if several processes distribute them: each
/// generates consecutive complete batches, so that every video has the same bits as with one
/// process.
struct VideoShare {
  int64_t index = 0;
  int64_t count = 1;
  /// Encode all prompts: the states of a batched text encoder depend on the batch.
  bool all_texts = false;
};

struct GenerateRequest {
  /// What is generated, for messages: networks::Sizes::noun.
  std::string_view noun = "video";
  std::vector<std::string> prompts;
  /// Texts for the second of two text encoders, one per prompt or none.
  std::vector<std::string> prompts_2;
  /// Absent: the empty text, or zeros if the pipeline is configured so (SDXL).
  std::optional<std::string> negative_prompt;
  std::optional<std::string> negative_prompt_2;
  /// Instead of negative_prompt: one per prompt, or none.
  std::vector<std::string> negative_prompts;
  /// Of all texts.
  text::PromptSyntax prompt_syntax = text::PromptSyntax::PLAIN;
  /// What the network's named inputs are made of; the same for all videos.
  GivenFiles files;
  /// Image to image, video to video and inpainting; the same for all videos.
  StartFrames start;
  int64_t num_videos_per_prompt = 1;
  int64_t num_frames = 81;
  /// Frames per second of the files that are written, if they are those of a given video.
  std::optional<double> fps;
  int64_t height = 480;
  int64_t width = 832;
  int64_t num_inference_steps = 50;
  double guidance_scale = 5.0;
  /// For the low-noise expert; guidance_scale if absent. See is_guided.
  std::optional<double> guidance_scale_2;
  double guidance_rescale = 0.0;
  /// Of networks with a guidance_offset: the guided velocity is at most this many times as long as
  /// the prompt's (0: any length), and steps at which 1 - t / 1000 is above the truncation have no
  /// guidance.
  double guidance_normalization = 0.0;
  double guidance_truncation = 1.0;
  /// Guidance scale of a negative prompt, for networks with distilled guidance.
  double true_cfg_scale = 1.0;
  /// For networks with size_ids; separate ones for the negative prompt if set.
  data::PictureSizes picture_sizes;
  std::optional<data::PictureSizes> negative_picture_sizes;
  uint64_t seed = 0;
  /// Index of the first video: video i of the request equals video first_index + i of a longer
  /// request.
  int64_t first_index = 0;
  /// Videos denoised together; changes results by rounding only.
  int64_t batch_size = 1;
  VideoShare share;
  /// False: stop after the latents.
  bool decodes = true;
  /// Prompt and negative prompt one after the other; chosen automatically if both together do not
  /// fit.
  bool two_passes = false;
  /// Heights and the kind of model are filled in.
  ReuseSettings reuse;
  /// Replaces the folder's schedule.
  std::optional<schedulers::ScheduleConfig> schedule;
  /// safetensors with `latents` (or one tensor of any name), f32 [n, c, f, h, w] with n the number
  /// of videos or 1: standard normal starting noise that replaces the seed's.
  std::filesystem::path initial_latents;
  /// File for the final latents, `latents` f32 [n, c, f, h, w]; empty: none. If a request is
  /// distributed, the process that gathers the latents writes them (GenerateObserver::denoised,
  /// save_latents).
  std::filesystem::path save_latents;

  /// Of all processes.
  int64_t videos() const { return static_cast<int64_t>(prompts.size()) * num_videos_per_prompt; }
  /// Those that are run: the number of given levels, or num_inference_steps, and less of them where
  /// the strength of given frames leaves out the first.
  int64_t steps() const;
};

/// A range of videos, by their index in the request.
struct VideoRange {
  int64_t first = 0;
  int64_t count = 0;
};
/// The videos of the share with this index; none if there are fewer batches than shares.
VideoRange videos_in_share(const GenerateRequest& request, int64_t index);

struct GeneratedVideo {
  std::string prompt;
  int64_t index = 0;  // of the video; its noise is a function of seed and index
  HostArray latents;  // f32 [c, f, h, w], normalised; of segments one after another
  HostArray frames;   // u8 [f, h, w, 3]
};

/// Seconds per phase, for the report. Encoders load and compile at first use, which counts as
/// theirs.
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
  std::optional<double> flow_shift;          // for pictures of these sizes; none: a diffusion
  std::vector<networks::NamedInput> inputs;  // those that were given
  int64_t steps = 0;                         // of all batches
  int64_t reused_steps = 0;                  // steps that reused results of earlier ones
  Timings timings;
  MemoryUse memory;
  /// Peak memory of a device, on a CPU of the process; 0 if unknown.
  int64_t peak_bytes = 0;
};

/// The factor g of u + g (c - u), for prompt c and negative prompt u; at most 1: no guidance.
/// Networks with distilled guidance have the guidance scale as an input, and a separate scale for a
/// negative prompt.
double classifier_free_scale(const GenerateRequest& request, const networks::Sizes& network);

/// The models other than the transformers. Shared, because several pipelines may use one text
/// encoder.
struct PipelineParts {
  std::shared_ptr<const encoders::Autoencoder> autoencoder;
  std::shared_ptr<const encoders::TextEncoder> text_encoder;
  std::shared_ptr<const encoders::ImageEncoder> image_encoder;  // null: none
};

/// Callbacks during a request; all may be empty.
struct GenerateObserver {
  /// A log line about something that differs from the request (`num_frames 80 is made 81`). Called
  /// before the work starts.
  std::function<void(const std::string& note)> note = {};
  /// Over a mesh, before the steps are compiled: the sharding of the transformer's batch.
  std::function<void(const std::string& text)> layout = {};
  /// Over a mesh, after the steps are compiled: the report of debug_sharding, which is not computed
  /// if this is empty.
  std::function<void(const std::vector<std::string>& lines)> sharding = {};
  /// After everything is compiled, before anything is loaded: the memory of the run.
  std::function<void(const MemoryUse& memory)> memory = {};
  /// Before the first step of each segment: the transformer's inputs, and the frames of the video.
  std::function<void(std::span<const DenoiseBatch> batches, int64_t num_frames)> encoded = {};
  /// After each step.
  DenoiseObserver step = {};
  /// Before the first video is decoded: the videos without frames.
  std::function<void(std::span<const GeneratedVideo> videos)> denoised = {};
  /// After each decoded video.
  std::function<void(int64_t done, int64_t total)> decoded = {};
};

struct PipelineOptions {
  nn::ModelOptions model;
  runtime::ProgramOptions program;
  /// Compiled steps, shared between pipelines; if null, the pipeline has its own.
  std::shared_ptr<StepPrograms> programs = {};
  /// Overrides the free bytes of device memory; if absent, the device is queried.
  std::optional<int64_t> available_bytes = {};
  /// Free text and image encoders after the first request's prompts are encoded, because there is
  /// no other request. If false, they stay for the next one if there is memory.
  bool releases_encoders = false;
  /// The transformers whose parameters come from Pipeline::share.
  std::vector<SharedTransformer> shared_transformers = {};
  /// For processes that share the devices and make the same calls. Takes this process's error
  /// (empty: none) and returns the error of the first process with one. So an error in one process
  /// ends the request in all of them.
  std::function<std::string(const std::string& problem)> agree = {};
};

/// Writes latents f32 [c, f, h, w] of all videos, in the format of GenerateRequest::save_latents.
void save_latents(const std::filesystem::path& path, std::span<const HostArray* const> latents);

/// A pipeline on one device, or with its transformers sharded over a mesh: text to video or image,
/// image to video (with or without CLIP), first and last frame, one transformer or two experts, and
/// TI2V, according to the folder.
class Pipeline {
 public:
  /// Throws the errors of the configurations' readers, and an Error if the autoencoder does not fit
  /// the transformer's channels.
  Pipeline(const runtime::Devices& devices, PipelineFolder folder, PipelineParts parts,
           PipelineOptions options = {});

  /// The shared transformers of the next videos, see Experts::share.
  void share(SharedParameters parameters) { experts_.share(std::move(parameters)); }

  /// Throws what generate would throw before it computes anything.
  void verify(const GenerateRequest& request, const GenerateObserver& observer = {}) const;

  /// Generates num_videos_per_prompt videos per prompt. It first checks everything that needs no
  /// computation, then the memory of the compiled step, then starts.
  Generated generate(const GenerateRequest& request, const GenerateObserver& observer = {});

  const encoders::Autoencoder& autoencoder() const { return *parts_.autoencoder; }
  const encoders::TextEncoder& text_encoder() const { return *parts_.text_encoder; }
  const PipelineFolder& folder() const { return experts_.folder(); }

 private:
  struct Plan;
  /// The transformer's context: all texts of prompts and negative prompt, and CLIP's tokens.
  struct Context {
    HostArray text;    // f32 [n, t, d]
    HostArray pooled;  // f32 [n, p], or no bytes
    HostArray image;   // f32 [n, d], or no bytes
  };
  Plan plan(const GenerateRequest& request, const GenerateObserver& observer) const;
  /// The first samples of a segment, from noise or from given frames.
  Start start(const GenerateRequest& request, const Plan& plan, int64_t segment) const;
  Context encode(const GenerateRequest& request, const Plan& plan, Timings& timings) const;
  void make_room(Plan& plan, const GenerateRequest& request, const GenerateObserver& observer);
  MemoryUse memory_use(const Plan& plan, const GenerateRequest& request) const;
  void add_texts(const GenerateRequest& request, Plan& plan) const;
  void release_encoders() const;
  /// The values of the plan's inputs.
  std::vector<HostArray> make_inputs(const GenerateRequest& request, const Plan& plan,
                                     const Start& start, const SegmentPart& segment) const;
  /// Denoises the videos of a segment; returns the latents of each, [c, f, h, w].
  std::vector<HostArray> make_segment(const GenerateRequest& request,
                                      const GenerateObserver& observer, const Plan& plan,
                                      const Context& context, const SegmentPart& segment,
                                      Generated& out);
  /// Decodes a video of one segment.
  void decode(const GenerateRequest& request, const Plan& plan, GeneratedVideo& video) const;
  static StartNoise noise_of(const GenerateRequest& request, const Plan& plan);
  static std::vector<DenoiseBatch> make_batches(const GenerateRequest& request, const Plan& plan,
                                                const Context& context, const Start& start,
                                                const std::vector<HostArray>& inputs);
  int64_t free_bytes(const Plan& plan) const;
  void check_together(const std::function<void()>& work) const;
  bool all_agree(bool own) const;

  Experts experts_;
  std::shared_ptr<StepPrograms> programs_;
  PipelineParts parts_;
  PipelineOptions options_;
};

}  // namespace kinema::sample
