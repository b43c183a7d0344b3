#include "kinema/datasets/clip_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/data/survey.h"
#include "kinema/encoders/clip_condition.h"
#include "kinema/encoders/clip_sizes.h"
#include "kinema/io/folder.h"
#include "kinema/preparation/encode_once.h"
#include "kinema/preparation/prepare.h"

namespace kinema::datasets {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<encoders::Autoencoder> checked_autoencoder(const ClipEncoders& makes,
                                                           const networks::Sizes& model) {
  auto autoencoder = makes.autoencoder();
  const encoders::LatentLayout layout = autoencoder->layout();
  check(layout.channels == model.out_channels,
        "[data] the autoencoder {} has {} latent channels, but the transformer expects {}",
        autoencoder->name(), layout.channels, model.out_channels);
  const int64_t condition = layout.temporal + layout.channels;
  const networks::NamedInput* input = model.stored_input();
  const bool of_frames = input != nullptr && input->made_of == networks::MadeOf::FIRST_AND_LAST;
  check(!of_frames || model.condition_channels() == 0 || model.condition_channels() == condition,
        "[data] the autoencoder {} has image conditions of {} channels, but the transformer "
        "expects {}",
        autoencoder->name(), condition, model.condition_channels());
  return autoencoder;
}

/// CLIP, if the transformer's conditioning includes image tokens.
std::unique_ptr<encoders::ImageEncoder> needed_image_encoder(const ClipEncoders& makes,
                                                             const networks::Sizes& model) {
  if (model.image_dim == 0) {
    return nullptr;
  }
  auto out = makes.image(model.image_dim);
  check(out != nullptr,
        "[data] the transformer is conditioned on CLIP's image tokens (image_dim {}), but "
        "pretrained_model_name_or_path is not a pipeline with image_encoder/ and image_processor/",
        model.image_dim);
  return out;
}

/// Whether the network's input is made of the files beside a clip, not of the clip itself.
bool takes_controls(const networks::Sizes& model) {
  const networks::NamedInput* input = model.stored_input();
  return input != nullptr && input->made_of != networks::MadeOf::FIRST_AND_LAST;
}

encoders::ClipInput clip_input(const networks::Sizes& model) {
  return {.input = model.stored_input(), .last_frame = model.takes_last_image};
}

/// Throws an Error unless every size divides into latents and patches; called before the first clip
/// is encoded.
void check_sizes(const ClipSettings& settings, const encoders::LatentLayout& layout,
                 const networks::Sizes& model) {
  for (const data::Bucket& size : settings.possible_sizes()) {
    try {
      encoders::check_clip_sizes(size.frames, size.height, size.width, layout, model.patch_size,
                                 model.max_positions);
    } catch (const Error& error) {
      check(!settings.automatic,
            "[data] buckets=auto makes {} x {}, with sides that are multiples of bucket_step {}: "
            "{}",
            size.height, size.width, settings.automatic ? settings.automatic->step : 0,
            error.what());
      throw;
    }
  }
}

encoders::TextStates encode_caption(const encoders::TextEncoder& encoder,
                                    const std::string& caption) {
  return encoders::row(encoder.encode(std::span(&caption, 1)), 0);
}

/// Encoders that are loaded at their first use.
class LazyEncoders {
 public:
  LazyEncoders(const ClipEncoders& makes, const networks::Sizes& model)
      : makes_(makes), model_(model) {}

  preparation::ClipEncodeFunctions with() {
    return {.pixels =
                [this](const HostArray& pixels, const data::ClipControl& control) {
                  if (!autoencoder_) {
                    autoencoder_ = checked_autoencoder(makes_, model_);
                    image_ = needed_image_encoder(makes_, model_);
                  }
                  return encoders::encode_clip(pixels, control, clip_input(model_), *autoencoder_,
                                               image_.get());
                },
            .text =
                [this](std::span<const std::string> captions) {
                  if (!text_) {
                    text_ = makes_.text();
                  }
                  return text_->encode(captions);
                },
            .release_text = [this] { text_.reset(); }};
  }

 private:
  const ClipEncoders& makes_;
  const networks::Sizes& model_;
  std::unique_ptr<encoders::Autoencoder> autoencoder_;
  std::unique_ptr<encoders::ImageEncoder> image_;
  std::unique_ptr<encoders::TextEncoder> text_;
};

/// The progress of captions first, then of clips.
class EncodingTask {
 public:
  /// `noun`: the name of a clip in messages.
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

/// Calls `work`, which may write to dataset_save_location. If that fails and the folder is not
/// writable, the Error says so; a complete folder is only read.
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

/// The hashes of the models that made the cached encodings.
preparation::ContentIndex kept_models(const EncodingCache& kept) {
  return preparation::ContentIndex(kept.folder / "models.json");
}

std::unique_ptr<data::Source> make_encoded_source(const ClipSettings& settings,
                                                  const networks::Sizes& model,
                                                  std::shared_ptr<const data::ClipSet> clips,
                                                  data::VideoOptions options,
                                                  const ClipEncoders& makes, const Job& job) {
  check(!options.random_start,
        "[config] random_start selects other frames each time: they cannot be cached in "
        "dataset_save_location\n"
        "  set dataset_save_location='' or random_start=false");
  check(!settings.changes_colors(),
        "[config] color_aug changes the colours of clips each time: they cannot be cached in "
        "dataset_save_location\n  set dataset_save_location='' or color_aug=false");
  const fs::path folder = settings.kept->folder;
  const auto encoded = keeping(folder, [&] {
    preparation::ContentIndex models = kept_models(*settings.kept);
    preparation::Settings pixels = makes.pixels_settings(models);
    if (takes_controls(model) && (clips->has_controls() || !model.stored_input()->optional)) {
      pixels["input"] = std::string(model.stored_input()->name);
    }
    if (model.takes_last_image) {
      pixels["image condition"] = "of the first and the last frame";
    }
    return std::make_shared<preparation::EncodedClips>(
        clips, folder,
        preparation::EncodeOnceOptions{
            .format = options.format,
            .buckets = options.buckets,
            .max_clips = options.max_samples,
            .flips = options.random_flip,
            .crop_seed = options.center_crop ? std::nullopt : std::optional(options.seed),
            .mask_kinds = options.mask_kinds,
            .mask_seed = options.seed,
            .captions = options.captions,
            .sizes = options.sizes,
            .alpha_mask = options.alpha_mask,
            .dtype = settings.kept->dtype,
            .pixels_settings = pixels,
            .text_settings = makes.text_settings(models),
            .problems = options.problems,
            .bad_clip = options.bad_clip,
            .threads = settings.threads,
            .decode_ahead = settings.decode_ahead});
  });
  LazyEncoders encoders(makes, model);
  std::optional<EncodingTask> task(std::in_place, job, clip_noun(settings));
  const preparation::EncodeCounts now = keeping(folder, [&] {
    return encoded->encode(encoders.with(),
                           {.on_progress = [&](const char* what, int64_t done,
                                               int64_t total) { task->update(what, done, total); },
                            .on_skip = options.on_skip,
                            .on_damage =
                                [&](const std::string& damage) {
                                  job.notice(damage + "; its contents are encoded again");
                                },
                            .stop_requested = [&] { return job.stop_requested(); }});
  });
  task.reset();
  if (now.encoded > 0 || now.captions > 0) {
    job.notice(fmt::format("encoded {} and {}, cached in {}",
                           counted(now.encoded, clip_noun(settings)),
                           counted(now.captions, "caption"), folder.string()));
  }
  if (now.stopped) {
    return nullptr;
  }
  options.center_crop = true;  // crop and mask are already part of the encoding
  options.mask_kinds.clear();
  options.on_skip = {};  // they were logged during encoding
  return data::encoded_source(
      std::move(clips), options,
      [encoded](int64_t clip, const data::ClipFormat& format, bool flipped, int64_t variant) {
        return encoded->find(clip, format, flipped, variant);
      });
}

}  // namespace

std::unique_ptr<data::Source> make_clip_source(const ClipSettings& settings,
                                               const networks::Sizes& model, int64_t batch,
                                               const ClipEncoders& makes, const ClipReport& report,
                                               const Job& job) {
  data::VideoOptions options = settings.order;
  // Its weights are loaded at the first use, so that this is cheap.
  std::shared_ptr<const encoders::Autoencoder> autoencoder = checked_autoencoder(makes, model);
  check_sizes(settings, autoencoder->layout(), model);
  std::shared_ptr<const data::ClipSet> clips = open_clips(settings, job);
  data::Survey survey = survey_dataset(settings, *clips, job);
  const SkippedClipsFile left_out = report_clips(settings, *clips, survey, report,
                                                 fits_frames(settings, autoencoder->layout()), job);
  options.buckets = std::move(survey.buckets);
  options.problems = std::move(survey.problems);
  options.on_skip = [job, clips, left_out](int64_t clip, const std::string& why) {
    const bool is_named = why.find(clips->path(clip)) != std::string::npos;
    job.notice("skipped: " + (is_named ? why : data::short_reason(*clips, clip, why)));
    left_out.add(*clips, clip, why);
  };
  if (clips->has_controls() && !takes_controls(model)) {
    job.notice(
        "the data set lists control, source or reference files, but this network takes none: it is "
        "not trained on them");
  }
  // An optional input is one of Flux, of which FLUX.1 Kontext alone was trained with it.
  if (takes_controls(model) && !model.stored_input()->optional && !clips->has_controls() &&
      !networks::fills_masks(model.stored_input()->made_of)) {
    job.notice(
        "the data set lists no control, source or reference files (metadata.jsonl), which this "
        "network takes");
  }
  options.batch = batch;
  options.sizes = model.size_ids > 0;
  if (model.stored_input() != nullptr && networks::fills_masks(model.stored_input()->made_of)) {
    options.mask_kinds = settings.mask_kinds;
  }
  if (settings.kept) {
    autoencoder.reset();
    return make_encoded_source(settings, model, std::move(clips), options, makes, job);
  }
  const std::shared_ptr<const encoders::TextEncoder> words = makes.text();
  const std::shared_ptr<const encoders::ImageEncoder> image = needed_image_encoder(makes, model);
  return data::video_source(
      std::move(clips), options, [autoencoder, words, image, model](const data::Clip& clip) {
        data::Sample out = encoders::encode_clip(clip.pixels, clip.control, clip_input(model),
                                                 *autoencoder, image.get());
        encoders::TextStates text = encode_caption(*words, clip.caption);
        out.encoder_hidden_states = std::move(text.states);
        out.pooled = std::move(text.pooled);
        out.size_ids = clip.size_ids;
        return out;
      });
}

int64_t cached_bytes(const ClipSettings& settings, int64_t samples, int64_t bytes) {
  if (settings.kept || settings.order.varies()) {
    return 0;
  }
  const int64_t each = bytes * (settings.flips() ? 2 : 1);  // mirrored and not
  return std::min(settings.order.cache_bytes, samples * each);
}

encoders::TextStates caption_states(const ClipEncoders& makes,
                                    const std::optional<EncodingCache>& kept,
                                    const std::string& caption) {
  const auto encode = [&](const std::string& text) { return encode_caption(*makes.text(), text); };
  if (!kept) {
    return encode(caption);
  }
  return keeping(kept->folder, [&] {
    preparation::ContentIndex models = kept_models(*kept);
    const preparation::EncodedText states(kept->folder / "text", makes.text_settings(models),
                                          kept->dtype);
    return states.read_or(caption, encode);
  });
}

}  // namespace kinema::datasets
