#include "kinema/jobs/run_videos.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/jobs/shared_generation.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/plans/kernel_check.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/encoders.h"
#include "kinema/sample/similarity.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// Thrown from the sampler if a stop is requested.
struct Stopped {};

/// Program options of generate's steps; compiled_step is only for the training step.
runtime::ProgramOptions programs_of(const resolve::Settings& config,
                                    const runtime::Devices& devices, const Job& job) {
  return plans::with_kernel_check(resolve::program_options(config), devices, job);
}

sample::PipelineParts remembered(sample::PipelineParts parts) {
  parts.text_encoder = encoders::remembering(std::move(parts.text_encoder));
  return parts;
}

/// Frames that are resized for TensorBoard.
HostArray preview(const HostArray& frames) {
  constexpr int64_t kTallest = 240;
  const Dims& dims = frames.shape.dims;
  if (dims[1] <= kTallest) {
    return frames;
  }
  const int64_t width = std::max<int64_t>(1, dims[2] * kTallest / dims[1]);
  HostArray out(Shape{DType::U8, {dims[0], kTallest, width, 3}});
  HostArray frame(Shape{DType::U8, {dims[1], dims[2], 3}});
  const auto size = static_cast<int64_t>(frame.bytes.size());
  auto to = out.bytes.begin();
  for (int64_t i = 0; i < dims[0]; ++i) {
    std::copy_n(frames.bytes.begin() + i * size, size, frame.bytes.begin());
    to = std::ranges::copy(media::resize_image(frame, kTallest, width).bytes, to).out;
  }
  return out;
}

}  // namespace

RunVideos::RunVideos(const resolve::Settings& loaded, const runtime::Devices& devices,
                     VideoModel model, io::Json flags, Job job)
    : loaded_(loaded),
      devices_(devices),
      model_(std::move(model)),
      flags_(std::move(flags)),
      job_(std::move(job)),
      weights_(devices, model_.network->parameters(model_.options),
               programs_of(loaded, devices, job_)),
      parts_(remembered(resolve::make_parts(loaded, model_at(0), model_.network.sizes(),
                                            devices.client(), job_))),
      programs_(
          std::make_shared<sample::StepPrograms>(devices, programs_of(loaded, devices, job_))),
      request_(resolve::make_request(loaded, model_at(0), model_.network, job_)) {
  if (!model_.texts.empty()) {
    text_ = std::make_shared<sample::InnerTextEncoder>(
        devices, model_.network, model_.texts, model_.options,
        resolve::make_ids_encoder(loaded, model_.trained.sizes(), devices.client(), job_),
        programs_of(loaded, devices, job_));
    parts_.text_encoder = text_;  // not remembered: its weights change
    std::vector<nn::ParamSpec> specs = model_.trained->parameters(model_.options);
    specs.erase(specs.begin(), specs.begin() + network_parameters());
    text_weights_.emplace(devices, std::move(specs), programs_of(loaded, devices, job_));
  }
  if (writes()) {
    io::check_writable(model_at(0).output);
  } else {
    request_.decodes = false;
    request_.save_latents.clear();
  }
  pipeline_at(0)->verify(request_,
                         {.note = [this](const std::string& line) { job_.notice(line); }});
}

int64_t RunVideos::network_parameters() const {
  return std::ssize(model_.network->parameters(model_.options));
}

model_source::SelectedModel RunVideos::model_at(int64_t steps) const {
  model_source::SelectedModel out = model_source::model_of_run(
      loaded_, model_.run,
      {.folder = model_.checkpoints / std::to_string(steps),
       .train_expert = model_.expert.which,
       .average = model_.average,
       .adapter = model_.adapter,
       .control = model_.control,
       .part = model_source::trained_part(model_.network, model_.expert)});
  out.folder.boundary_ratio = model_.expert.boundary_ratio;
  out.folder.controlnets.clear();  // the network in training has it
  return out;
}

std::unique_ptr<sample::Pipeline> RunVideos::pipeline_at(int64_t steps) {
  std::vector<sample::SharedTransformer> shared_transformers;
  for (const model_source::Expert& one : model_.expert.each()) {
    shared_transformers.push_back(
        {.network = model_.network, .expert = one.is_low_noise() ? 1 : 0});
  }
  sample::PipelineOptions options{.model = model_.options,
                                  .programs = programs_,
                                  .shared_transformers = std::move(shared_transformers)};
  if (!job_.world().is_alone()) {
    options.agree = [this](const std::string& problem) {
      std::string out = agree_on_problem(problem, job_);
      together_ = !out.empty();
      return out;
    };
  }
  return std::make_unique<sample::Pipeline>(devices_, model_at(steps).folder, parts_,
                                            std::move(options));
}

std::optional<RunVideos::Made> RunVideos::make(
    const std::function<training::StateView(int64_t place)>& state, int64_t steps) {
  const pjrt::AllowTransfers all;
  const Stopwatch watch;
  const bool average = model_at(steps).average;
  const std::unique_ptr<sample::Pipeline> pipeline = pipeline_at(steps);
  Made out;
  const auto kept = [&](int64_t place) {
    const training::StateView view = state(place);
    return average ? view.averages() : view.params();
  };
  const auto give_back = [&] {  // training steps need the memory
    weights_.clear();
    if (text_weights_) {
      text_weights_->clear();
    }
    parts_.autoencoder->release();
    if (parts_.image_encoder) {
      parts_.image_encoder->release();
    }
  };
  try {
    pipeline->share([&](int64_t expert) {
      const std::vector<const runtime::Array*> all = kept(model_.expert.is_both() ? expert : 0);
      return weights_.of(std::span(all).first(static_cast<size_t>(network_parameters())));
    });
    if (text_) {
      const std::vector<const runtime::Array*> all = kept(0);
      text_->use(
          text_weights_->of(std::span(all).subspan(static_cast<size_t>(network_parameters()))));
    }
    together_ = job_.world().is_alone();
    const auto step = [&](const sample::DenoiseStep&) {
      job_.barrier("a step of the sampler");
      if (job_.stop_requested()) {
        throw Stopped();
      }
    };
    // From here on only process 0 works.
    const auto denoised = [&](std::span<const sample::GeneratedVideo>) { together_ = true; };
    out.generated = pipeline->generate(request_, {.step = step, .denoised = denoised});
  } catch (const Stopped&) {
    give_back();
    return std::nullopt;
  } catch (const Error& error) {
    give_back();
    if (!together_) {
      agree_on_error(error.what());
    }
    throw;
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
  if (!writes()) {
    return out;
  }
  const model_source::SelectedModel model = model_at(steps);
  sample::OutputOptions options = resolve::output_options(loaded_, model, flags_);
  options.keep_existing = false;  // a step that is run again makes its videos again
  out.files = sample::write_outputs(model.output, request_, out.generated, *pipeline, options);
  out.seconds = watch.seconds();
  return out;
}

/// During the steps, mostly all processes fail in the same way, because all have the same latents;
/// if only one fails, the others wait for it in a step.
void RunVideos::agree_on_error(const std::string& problem) {
  constexpr double kSoon = 60;  // seconds
  try {
    first_problem(problem, job_, kSoon);
    together_ = true;
  } catch (const Error&) {
  }
}

std::vector<metrics::EventImage> pictures(const RunVideos::Made& made, double fps) {
  std::vector<metrics::EventImage> out;
  for (size_t i = 0; i < made.generated.videos.size(); ++i) {
    const HostArray frames = preview(made.generated.videos[i].frames);
    const Dims& dims = frames.shape.dims;
    constexpr int64_t kVisible = 96;  // the smallest height that is shown unscaled
    const int64_t enlarge = std::min<int64_t>(64, (kVisible + dims[1] - 1) / dims[1]);
    out.push_back(
        {.name = "samples/" + made.files.videos[i].stem().string(),
         .height = dims[1] * enlarge,
         .width = dims[2] * enlarge,
         .encoded = media::encode_gif(frames, {.fps = fps, .enlarge = static_cast<int>(enlarge)})});
  }
  return out;
}

BeforeTraining::BeforeTraining(const fs::path& run, const std::string& prompt, const Job& job)
    : file_(run / "samples" / "0" / "frames.safetensors"), prompt_(prompt) {
  std::error_code ignored;
  if (!fs::exists(file_, ignored)) {
    return;
  }
  try {
    const io::SafetensorsFile file = io::SafetensorsFile::open(file_);
    const auto found = file.metadata().find("prompt");
    if (found != file.metadata().end() && found->second == prompt_) {
      frames_ = file.at("frames").copy();
    }
  } catch (const Error& error) {
    job.notice(error.what());  // a failed comparison does not stop a run
  }
}

void BeforeTraining::keep(const RunVideos::Made& made) {
  frames_ = made.generated.videos.front().frames;
  const std::vector<io::TensorEntry> entries{io::TensorEntry::of("frames", *frames_)};
  io::make_folder(file_.parent_path());
  io::write_safetensors(file_, entries, {{"prompt", prompt_}});
}

std::optional<BeforeTraining::Similarity> BeforeTraining::compare(
    const RunVideos::Made& made) const {
  const HostArray& now = made.generated.videos.front().frames;
  if (!frames_ || frames_->shape != now.shape) {
    return std::nullopt;
  }
  return Similarity{.ssim = sample::structural_similarity(*frames_, now),
                    .psnr = sample::peak_signal_to_noise(*frames_, now)};
}

}  // namespace kinema::jobs
