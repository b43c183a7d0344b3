#include "kinema/runs/clip_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/data/survey.h"
#include "kinema/data/video_source.h"
#include "kinema/encoders/clip_sizes.h"
#include "kinema/encoders/image_condition.h"
#include "kinema/io/folder.h"
#include "kinema/preparation/encode_once.h"
#include "kinema/preparation/prepare.h"
#include "kinema/runs/clip_report.h"
#include "kinema/runs/clips.h"
#include "kinema/runs/encoder_settings.h"
#include "kinema/runs/encoders.h"
#include "kinema/runs/model_options.h"
#include "kinema/runs/trained_model.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

}  // namespace

data::VideoOptions video_options(const config::Config& config) {
  data::VideoOptions options;
  options.max_samples = config.data.max_train_samples;
  options.format = clip_format(config);
  options.random_start = config.data.random_start;
  options.center_crop = config.data.center_crop;
  options.random_flip = config.data.random_flip;
  options.shuffle = config.data.enable_data_shuffling;
  options.seed = static_cast<uint64_t>(config.run.seed);
  options.bad_clip = config.data.skip_bad_clips ? data::BadClip::Skip : data::BadClip::Fail;
  if (!config.data.cache_latents_text_encoder_outputs) {
    options.cache_bytes = 0;
  }
  return options;
}

namespace {

std::unique_ptr<encoders::Autoencoder> checked_autoencoder(const config::Config& config,
                                                           const networks::Sizes& model,
                                                           const pjrt::Client& client) {
  auto autoencoder = make_autoencoder(config, client);
  const encoders::LatentLayout layout = autoencoder->layout();
  check(layout.channels == model.out_channels,
        "[data] the autoencoder {} makes {} channels but the transformer takes {}",
        autoencoder->name(), layout.channels, model.out_channels);
  const int64_t condition = layout.temporal + layout.channels;
  check(model.condition_channels() == 0 || model.condition_channels() == condition,
        "[data] the autoencoder {} makes image conditions of {} channels but the transformer takes "
        "{}",
        autoencoder->name(), condition, model.condition_channels());
  return autoencoder;
}

/// CLIP, where the transformer looks at its images through it.
std::unique_ptr<encoders::ImageEncoder> needed_image_encoder(const config::Config& config,
                                                             const networks::Sizes& model,
                                                             const pjrt::Client& client) {
  if (model.image_dim == 0) {
    return nullptr;
  }
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  auto out = pipeline ? make_image_encoder(config, *pipeline, model.image_dim, client) : nullptr;
  check(out != nullptr,
        "[data] the transformer looks at its images through CLIP (image_dim {}), but "
        "pretrained_model_name_or_path is no pipeline with image_encoder/ and image_processor/",
        model.image_dim);
  return out;
}

/// What a sample takes from pixels; with `condition`, of their first frame too.
data::Sample encode_pixels(const HostArray& pixels, const encoders::Autoencoder& autoencoder,
                           bool condition, const encoders::ImageEncoder* image) {
  data::Sample out;
  out.latents = autoencoder.encode(pixels);
  if (condition) {
    const Dims& dims = pixels.shape.dims;
    const encoders::GivenImages images{.first = data::first_frame(pixels), .last = {}};
    out.condition = encoders::image_condition(
        images, {.num_frames = dims[1], .height = dims[2], .width = dims[3]}, autoencoder);
    if (image != nullptr) {
      out.image_states = encoders::image_tokens(images, *image);
    }
  }
  return out;
}

/// That every size divides into latents and patches, before the first clip is encoded.
void check_sizes(const config::Config& config, const data::ClipFormat& format,
                 const encoders::LatentLayout& layout, const networks::Sizes& model) {
  const config::Buckets buckets = config::read_buckets(config.data);
  if (!buckets.on) {
    encoders::check_clip_sizes(format.num_frames, format.height, format.width, layout,
                               model.patch_size, model.max_positions);
  }
  for (const auto& [frames, height, width] : buckets.sizes) {
    encoders::check_clip_sizes(frames, height, width, layout, model.patch_size,
                               model.max_positions);
  }
}

encoders::TextStates encode_caption(const encoders::TextEncoder& encoder,
                                    const std::string& caption) {
  return encoders::row(encoder.encode(std::span(&caption, 1)), 0);
}

bool keeps_encoded(const config::Config& config) {
  return !config.data.dataset_save_location.empty() &&
         config.data.cache_latents_text_encoder_outputs;
}

/// Encoders that are loaded when they are first used.
class LazyEncoders {
 public:
  LazyEncoders(const config::Config& config, const networks::Sizes& model,
               const pjrt::Client& client, const Job& job)
      : config_(config), model_(model), client_(client), job_(job) {}

  preparation::EncodeWith with() {
    return {.pixels =
                [this](const HostArray& pixels) {
                  if (!autoencoder_) {
                    autoencoder_ = checked_autoencoder(config_, model_, client_);
                    image_ = needed_image_encoder(config_, model_, client_);
                  }
                  return encode_pixels(pixels, *autoencoder_, has_image_condition(config_),
                                       image_.get());
                },
            .text =
                [this](std::span<const std::string> captions) {
                  if (!text_) {
                    text_ = make_text_encoder(config_, text_widths(model_), client_, job_,
                                              TextUse::CAPTIONS);
                  }
                  return text_->encode(captions);
                },
            .release_text = [this] { text_.reset(); }};
  }

 private:
  const config::Config& config_;
  const networks::Sizes& model_;
  const pjrt::Client& client_;
  const Job& job_;
  std::unique_ptr<encoders::Autoencoder> autoencoder_;
  std::unique_ptr<encoders::ImageEncoder> image_;
  std::unique_ptr<encoders::TextEncoder> text_;
};

/// A task for the captions, then one for the clips.
class EncodingTask {
 public:
  /// `noun`: what a clip is called.
  EncodingTask(const Job& job, std::string noun) : job_(job), noun_(std::move(noun)) {}

  void update(const std::string& what, int64_t done, int64_t total) {
    if (what != what_) {
      task_.reset();
      task_ = job_.task("encoding " + (what == "clips" ? noun_ + "s" : what), total);
      what_ = what;
    }
    task_->update(done);
  }

 private:
  const Job& job_;
  std::string noun_;
  std::string what_;
  std::unique_ptr<Task> task_;
};

/// Does what may write to dataset_save_location. Where that cannot be written to, an Error says so
/// too; a folder that holds all is read alone.
template <typename Work>
auto keeping(const fs::path& folder, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    try {
      io::check_writable(folder);
    } catch (const Error&) {
      fail(
          "{}\n  dataset_save_location={} cannot be written to: name another folder, or "
          "dataset_save_location='' (in memory, recomputed in each run)",
          error.what(), folder.string());
    }
    throw;
  }
}

/// Of the models that made what is kept.
preparation::ContentIndex kept_models(const config::Config& config) {
  return preparation::ContentIndex(fs::path(config.data.dataset_save_location) / "models.json");
}

std::unique_ptr<data::Source> make_encoded_source(const config::Config& config,
                                                  const networks::Sizes& model,
                                                  std::shared_ptr<const data::ClipSet> clips,
                                                  data::VideoOptions options,
                                                  const pjrt::Client& client, const Job& job) {
  check(!options.random_start,
        "[config] random_start makes another clip each time: none can be kept in "
        "dataset_save_location\n  set dataset_save_location='' or random_start=false");
  const fs::path folder = config.data.dataset_save_location;
  preparation::ContentIndex models = kept_models(config);
  const auto encoded = keeping(folder, [&] {
    return std::make_shared<preparation::EncodedClips>(
        clips, folder,
        preparation::EncodeOnceOptions{
            .format = options.format,
            .buckets = options.buckets,
            .max_clips = options.max_samples,
            .flips = options.random_flip,
            .crop_seed = options.center_crop ? std::nullopt : std::optional(options.seed),
            .sizes = options.sizes,
            .dtype = dtype(config.data.records_dtype),
            .pixels_settings = pixels_settings(config, models),
            .text_settings = text_settings(config, text_widths(model), models),
            .problems = options.problems,
            .bad_clip = options.bad_clip,
            .threads = static_cast<int>(config.data.decode_threads),
            .decode_ahead = config.data.prefetch_batches});
  });
  LazyEncoders encoders(config, model, client, job);
  std::optional<EncodingTask> task(std::in_place, job, clip_noun(config));
  const preparation::EncodedNow now = keeping(folder, [&] {
    return encoded->encode(encoders.with(),
                           {.on_progress = [&](const char* what, int64_t done,
                                               int64_t total) { task->update(what, done, total); },
                            .on_skip = options.on_skip,
                            .on_damage =
                                [&](const std::string& damage) {
                                  job.notice(damage + "; what it held is encoded again");
                                },
                            .stop_requested = [&] { return job.stop_requested(); }});
  });
  task.reset();
  if (now.encoded > 0 || now.captions > 0) {
    job.notice(fmt::format("encoded {} and {}, kept in {}", counted(now.encoded, clip_noun(config)),
                           counted(now.captions, "caption"), folder.string()));
  }
  if (now.stopped) {
    return nullptr;
  }
  options.center_crop = true;  // where they were cropped was chosen
  options.on_skip = {};        // they were named
  return data::encoded_source(
      std::move(clips), options,
      [encoded](int64_t clip, const data::ClipFormat& format, bool flipped) {
        return encoded->find(clip, format, flipped);
      });
}

}  // namespace

std::unique_ptr<data::Source> make_clip_source(const config::Config& config,
                                               const networks::Sizes& model, int64_t batch,
                                               const pjrt::Client& client, const Job& job,
                                               const ClipReport& report, data::Split::Part part) {
  data::VideoOptions options = video_options(config);
  // Its weights are read when it is first used, so that this costs next to nothing.
  std::shared_ptr<const encoders::Autoencoder> autoencoder =
      checked_autoencoder(config, model, client);
  check_sizes(config, options.format, autoencoder->layout(), model);
  std::shared_ptr<const data::ClipSet> clips = open_clips(config, job, part);
  data::Survey survey = look_at_clips(config, *clips, job);
  const LeftOutFile left_out =
      report_clips(config, *clips, survey, report, fits_frames(config, autoencoder->layout()), job);
  options.buckets = std::move(survey.buckets);
  options.problems = std::move(survey.problems);
  options.on_skip = [job, clips, left_out](int64_t clip, const std::string& why) {
    job.notice("skipped: " + why);
    left_out.add(*clips, clip, why);
  };
  options.batch = batch;
  options.sizes = model.size_ids > 0;
  if (keeps_encoded(config)) {
    autoencoder.reset();
    return make_encoded_source(config, model, std::move(clips), options, client, job);
  }
  const std::shared_ptr<const encoders::TextEncoder> words =
      make_text_encoder(config, text_widths(model), client, job, TextUse::CAPTIONS);
  const std::shared_ptr<const encoders::ImageEncoder> image =
      needed_image_encoder(config, model, client);
  return data::video_source(
      std::move(clips), options,
      [autoencoder, words, image, condition = has_image_condition(config)](const data::Clip& clip) {
        data::Sample out = encode_pixels(clip.pixels, *autoencoder, condition, image.get());
        encoders::TextStates text = encode_caption(*words, clip.caption);
        out.encoder_hidden_states = std::move(text.states);
        out.pooled = std::move(text.pooled);
        out.size_ids = clip.size_ids;
        return out;
      });
}

int64_t kept_in_memory(const config::Config& config, int64_t samples, int64_t bytes) {
  const data::VideoOptions options = video_options(config);
  if (!has_clips(config.data) || keeps_encoded(config) || options.varies()) {
    return 0;
  }
  const int64_t each = bytes * (options.random_flip ? 2 : 1);  // either way round
  return std::min(options.cache_bytes, samples * each);
}

encoders::TextStates caption_states(const config::Config& config, const std::string& caption,
                                    const TextWidths& widths, const pjrt::Client& client,
                                    const Job& job) {
  const auto encode = [&](const std::string& text) {
    return encode_caption(*make_text_encoder(config, widths, client, job, TextUse::CAPTIONS), text);
  };
  if (!has_clips(config.data) || !keeps_encoded(config)) {
    return encode(caption);
  }
  preparation::ContentIndex models = kept_models(config);
  const preparation::EncodedText kept(fs::path(config.data.dataset_save_location) / "text",
                                      text_settings(config, widths, models),
                                      dtype(config.data.records_dtype));
  return kept.read_or(caption, encode);
}

}  // namespace kinema::runs
