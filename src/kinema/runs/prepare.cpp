#include "kinema/runs/prepare.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/networks/open.h"
#include "kinema/runs/clip_report.h"
#include "kinema/runs/clips.h"
#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/device.h"
#include "kinema/runs/encoder_settings.h"
#include "kinema/runs/encoders.h"
#include "kinema/runs/model_options.h"
#include "kinema/runs/model_places.h"
#include "kinema/runs/models.h"
#include "kinema/runs/network.h"
#include "kinema/runs/pictures.h"
#include "kinema/runs/shared_start.h"
#include "kinema/runs/stores.h"
#include "kinema/runs/trained_model.h"
#include "kinema/training/objective.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// Widths of the text: the transformer's, where the encoder could give any; 0: what it gives.
TextWidths widths_of(const config::Loaded& loaded) {
  if (loaded.config.model.text_encoder != config::TextEncoder::HASHED) {
    return {};
  }
  const fs::path transformer = trained_transformer(loaded.config);
  return text_widths(
      (transformer.empty() ? scratch_network(loaded) : networks::open(transformer)).sizes());
}

/// What the records are made with, beside the clips.
struct Made {
  TextWidths text;
  bool sizes = false;  // of pictures
  bool writes = true;  // in this process
};

/// What decides latents and text states beside the clips.
preparation::Settings encoder_settings(const config::Config& config, const Made& with) {
  preparation::ContentIndex models(preparation::contents_path(config.data.tfrecords_dir));
  preparation::Settings out = pixels_settings(config, models);
  out.merge(text_settings(config, with.text, models));
  if (with.sizes) {
    out["sizes"] = "true";
  }
  return out;
}

/// Where the configuration is for a model of images, CLIP of its pipeline, if it has one.
std::unique_ptr<encoders::ImageEncoder> image_encoder(const config::Config& config,
                                                      const pjrt::Client& client) {
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  if (!has_image_condition(config)) {
    const bool of_images = pipeline && pipeline->of_images() && !pipeline->expand_timesteps;
    check(
        !of_images,
        "[config] {} makes videos of images, but model_type is {}\n  model_type=I2V prepares what "
        "it is shown of them",
        config.model.pretrained_model_name_or_path, config::word_of(config.model.model_type));
    return nullptr;
  }
  check(pipeline || config.model.image_dim.value == 0,
        "[config] image_dim is {}, but pretrained_model_name_or_path is no pipeline with an image "
        "encoder",
        config.model.image_dim);
  return pipeline ? make_image_encoder(config, *pipeline, 0, client) : nullptr;
}

preparation::Options options_of(const config::Config& config, const Made& with) {
  const config::DataConfig& d = config.data;
  preparation::Options out;
  out.name = clips_name(d);
  out.max_clips = d.max_train_samples;
  out.format = clip_format(config);
  out.output = d.tfrecords_dir;
  out.dtype = dtype(d.records_dtype);
  out.records_per_shard = d.no_records_per_shard;
  if (with.writes) {
    out.settings = encoder_settings(config, with);
  }
  out.decode_threads = static_cast<int>(d.decode_threads);
  out.decode_ahead = d.prefetch_batches;
  return out;
}

/// Throws an Error where timesteps_list has one that the model's schedule lacks.
void check_timesteps(const config::Config& config) {
  training::ObjectiveOptions model;
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  if (pipeline && pipeline->schedule && !schedulers::is_flow(pipeline->schedule->sampler)) {
    model.diffusion = training::DiffusionObjective{
        .diffusion = pipeline->schedule->diffusion,
        .num_train_timesteps = pipeline->schedule->num_train_timesteps};
  }
  for (const int64_t timestep : config.data.timesteps_list) {
    training::check_timestep(timestep, model, "timesteps_list");
  }
}

/// The folders to write, in order, each as (what it is, how). The clips of the second begin where
/// those of the first end.
struct Part {
  const char* name;
  preparation::Options options;
  RecordStore* store;  // null where another process writes
};
std::vector<Part> parts_of(const config::Config& config,
                           const std::shared_ptr<const data::ClipSet>& clips, const Made& with,
                           RecordStore* records, RecordStore* eval_records) {
  const config::DataConfig& d = config.data;
  std::vector<Part> out;
  preparation::Options all = options_of(config, with);
  all.clips = clips;
  if (d.enable_eval_timesteps || !d.eval_tfrecords_dir.empty()) {
    check_timesteps(config);
    preparation::Options eval = all;
    eval.output = d.enable_eval_timesteps ? d.tfrecords_dir : d.eval_tfrecords_dir;
    eval.max_records = d.num_eval_samples;
    eval.timesteps = d.timesteps_list;
    out.push_back({"evaluation", eval, d.enable_eval_timesteps ? records : eval_records});
  }
  if (!d.enable_eval_timesteps) {
    all.buckets = bucket_sizes(d);  // evaluations are of one size
    out.push_back({"training", all, records});
  }
  // With a name behind it, a slash at the end makes no difference.
  const auto plain = [](const std::string& folder) {
    return fs::weakly_canonical(fs::absolute(fs::path(folder) / "x"));
  };
  check(out.size() < 2 || plain(d.tfrecords_dir) != plain(d.eval_tfrecords_dir),
        "[config] tfrecords_dir and eval_tfrecords_dir are both {}", d.tfrecords_dir);
  return out;
}

preparation::Hooks hooks_of(const PrepareObserver& observer, const Job& job, RecordStore* store) {
  return {.on_clip = job.progress("preparing"),
          .on_skip =
              [&](const preparation::SkippedClip& clip) {
                if (observer.on_skip) {
                  observer.on_skip(clip);
                } else {
                  job.notice(fmt::format("skipped: {}: {}", clip.file, clip.reason));
                }
              },
          .on_shard =
              [&observer, store](const preparation::Shard& shard) {
                store->hint();
                if (observer.on_shard) {
                  observer.on_shard(shard);
                }
              },
          .stop_requested = [&job] { return job.stop_asked(); }};
}

}  // namespace

PrepareResult prepare(const config::Loaded& given, const PrepareObserver& observer,
                      JobOptions options) {
  const Job job(observer, std::move(options));
  job.notice(notices(given, "prepare"));
  const std::shared_ptr<void> together = start_heartbeat(given.config, job);
  const flags::Effective flags = check_flags(given, job);
  config::Loaded loaded = with_local_models(given, Use::PREPARE, job);
  config::DataConfig& data = loaded.config.data;
  check_same_start(loaded.config, flags, job);
  data.train_data_dir = local_copy(data.train_data_dir, job);
  const bool writes = job.world().is_first();
  std::optional<RecordStore> records;
  std::optional<RecordStore> eval_records;
  if (writes) {
    records.emplace(data.tfrecords_dir, job);
    eval_records.emplace(data.eval_tfrecords_dir, job);
    data.tfrecords_dir = records->local();
    data.eval_tfrecords_dir = eval_records->local();
  }
  job.begin();
  const Pictures pictures = pictures_of(loaded);
  loaded = with_image_keys(std::move(loaded), pictures);
  const config::Config& config = loaded.config;
  const Made with{.text = widths_of(loaded), .sizes = pictures.sizes, .writes = writes};
  const std::shared_ptr<const data::ClipSet> clips = open_clips(config, job);
  std::vector<Part> parts = parts_of(config, clips, with, records ? &*records : nullptr,
                                     eval_records ? &*eval_records : nullptr);
  const pjrt::Client client = open_own_client(config, job);
  check_same_devices(client, job);
  const auto autoencoder = make_autoencoder(config, client);
  PrepareResult result;
  int64_t found_when_decoded = 0;
  if (writes) {
    const data::Survey survey = look_at_clips(config, *clips, job);
    check_enough(config, *clips, survey, fits_frames(config, autoencoder->layout()));
    const fs::path folder = fs::path(records->path()) / "";  // with or without a slash at its end
    const std::string list = folder.parent_path().string() + ".skipped.jsonl";
    job.notice(report_lines(config, *clips, survey, {}, list));
    result.left_out = data::causes_of(survey);
    found_when_decoded = -survey.bad();
  }
  const auto text_encoder = make_text_encoder(config, with.text, client, job, TextUse::CAPTIONS);
  const auto clip = image_encoder(config, client);
  const preparation::Encoders models{.autoencoder = *autoencoder,
                                     .text = *text_encoder,
                                     .image_condition = has_image_condition(config),
                                     .sizes = with.sizes,
                                     .image = clip.get()};
  int64_t first_clip = 0;
  for (Part& part : parts) {
    part.options.first_clip = first_clip;
    part.options.world = &job.world();
    PreparedFolder made{
        .kind = part.name,
        .path = part.store == nullptr ? "" : part.store->path(),
        .has_buckets = !part.options.buckets.empty(),
        .noun = clip_noun(config),
        .made = prepare_records(part.options, models, hooks_of(observer, job, part.store))};
    if (part.store != nullptr) {
      part.store->finish();
      if (observer.on_folder) {
        observer.on_folder(made);
      }
    }
    first_clip = made.made.end_clip;
    found_when_decoded += std::ssize(made.made.skipped);
    result.stopped = made.made.stopped;
    result.folders.push_back(std::move(made));
    if (result.stopped) {
      break;
    }
  }
  if (found_when_decoded > 0) {
    result.left_out.push_back({"damaged", found_when_decoded});
  }
  return result;
}

}  // namespace kinema::runs
