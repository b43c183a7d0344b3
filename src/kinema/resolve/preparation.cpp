#include "kinema/resolve/preparation.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/network.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/networks/open.h"
#include "kinema/preparation/content_index.h"
#include "kinema/resolve/encoder_settings.h"
#include "kinema/training/objective.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// The settings that determine latents and text states, in addition to the clips.
preparation::Settings record_encodings(const config::Config& config, const RecordContents& with) {
  preparation::ContentIndex models(preparation::contents_path(config.data.tfrecords_dir));
  preparation::Settings out = pixels_settings(config, models);
  out.merge(text_settings(config, with.text, models));
  if (with.sizes) {
    out["sizes"] = "true";
  }
  if (with.input && with.input->last_frame) {
    out["image condition"] = "of the first and the last frame";
  }
  return out;
}

preparation::Options record_options(const config::Config& config,
                                    const datasets::ClipSettings& clips,
                                    const RecordContents& with) {
  const config::DataConfig& d = config.data;
  preparation::Options out;
  out.name = clips.name;
  out.max_clips = d.max_train_samples;
  out.format = clips.order.format;
  out.alpha_mask = clips.order.alpha_mask;
  if (with.input && networks::fills_masks(with.input->input.made_of)) {
    out.mask_kinds = clips.mask_kinds;
    out.mask_seed = clips.order.seed;
  }
  out.output = d.tfrecords_dir;
  out.dtype = model_source::dtype(d.records_dtype);
  out.records_per_shard = d.no_records_per_shard;
  if (with.writes) {
    out.settings = record_encodings(config, with);
  }
  out.decode_threads = static_cast<int>(d.decode_threads);
  out.decode_ahead = d.prefetch_batches;
  return out;
}

/// Throws an Error for data sets whose proportions records cannot have.
void check_sets(const datasets::ClipSettings& clips) {
  if (!clips.sets) {
    return;
  }
  for (const data::DatasetPart& part : clips.sets->parts) {
    check(part.rules.weight == 0,
          "[config] {} has weight {:g}, but records have no weights\n  repeats lists its clips "
          "several "
          "times",
          part.where, part.rules.weight);
    check(!part.rules.regularization,
          "[config] {} has regularization pictures, but records do not tell them from others\n  "
          "train "
          "from the pictures themselves, with dataset_save_location=FOLDER to encode them once",
          part.where);
  }
}

/// Throws an Error if timesteps_list has a timestep that the model's schedule lacks.
void check_timesteps(const config::Config& config) {
  training::ObjectiveOptions model;
  const std::optional<sample::PipelineFolder> pipeline = model_source::pipeline_index(config);
  if (pipeline && pipeline->schedule && !schedulers::is_flow(*pipeline->schedule)) {
    model.diffusion = training::DiffusionObjective{
        .diffusion = pipeline->schedule->diffusion,
        .num_train_timesteps = pipeline->schedule->num_train_timesteps};
  }
  for (const int64_t timestep : config.data.timesteps_list) {
    training::check_timestep(timestep, model, "timesteps_list");
  }
}

}  // namespace

PreparationFolders preparation_folders(const config::Config& config) {
  const config::DataConfig& d = config.data;
  const config::Buckets buckets = config::read_buckets(d);
  check(!buckets.on || !buckets.sizes.empty(),
        "[config] buckets=auto of clips is for training on the clips themselves: records need a "
        "list of sizes,\n  like buckets=[[81,480,832],[81,832,480]]");
  return {
      .clips = d.train_data_dir, .records = d.tfrecords_dir, .eval_records = d.eval_tfrecords_dir};
}

config::Loaded with_folders(config::Loaded loaded, const PreparationFolders& folders) {
  config::DataConfig& d = loaded.config.data;
  d.train_data_dir = folders.clips;
  d.tfrecords_dir = folders.records;
  d.eval_tfrecords_dir = folders.eval_records;
  return loaded;
}

TextWidths preparation_text_widths(const config::Loaded& loaded) {
  if (loaded.config.model.text_encoder != config::TextEncoder::HASHED) {
    return {};
  }
  const fs::path transformer = model_source::trained_transformer(loaded.config);
  return text_widths(
      (transformer.empty() ? model_source::scratch_network(loaded) : networks::open(transformer))
          .sizes());
}

std::unique_ptr<encoders::ImageEncoder> preparation_image_encoder(const config::Config& config,
                                                                  const pjrt::Client& client) {
  const std::optional<sample::PipelineFolder> pipeline = model_source::pipeline_index(config);
  if (!model_source::has_image_condition(config)) {
    const bool of_images = pipeline && pipeline->of_images() && !pipeline->expand_timesteps;
    check(!of_images,
          "[config] {} is an image-to-video model, but model_type is {}\n"
          "  model_type=I2V prepares its image conditioning",
          config.model.pretrained_model_name_or_path, config::word_of(config.model.model_type));
    return nullptr;
  }
  check(pipeline || config.model.image_dim.value == 0,
        "[config] image_dim is {}, but pretrained_model_name_or_path is not a pipeline with an "
        "image encoder",
        config.model.image_dim);
  return pipeline ? make_image_encoder(config, *pipeline, 0, client) : nullptr;
}

std::vector<PreparedPart> preparation_parts(const config::Config& config,
                                            const datasets::ClipSettings& clips,
                                            const RecordContents& with) {
  const config::DataConfig& d = config.data;
  check_sets(clips);
  std::vector<PreparedPart> out;
  preparation::Options all = record_options(config, clips, with);
  if (d.enable_eval_timesteps || !d.eval_tfrecords_dir.empty()) {
    check_timesteps(config);
    preparation::Options eval = all;
    eval.output = d.enable_eval_timesteps ? d.tfrecords_dir : d.eval_tfrecords_dir;
    eval.max_records = d.num_eval_samples;
    eval.timesteps = d.timesteps_list;
    out.push_back({"evaluation", eval, !d.enable_eval_timesteps});
  }
  if (!d.enable_eval_timesteps) {
    all.buckets = clips.buckets;  // evaluation samples have one size
    all.own_sizes = clips.has_own_sizes();
    out.push_back({"training", all, /*in_eval_folder=*/false});
  }
  // `a/` and `a` are the same folder.
  const auto plain = [](const std::string& folder) {
    return fs::weakly_canonical(fs::absolute(fs::path(folder) / "x"));
  };
  check(out.size() < 2 || plain(d.tfrecords_dir) != plain(d.eval_tfrecords_dir),
        "[config] tfrecords_dir and eval_tfrecords_dir are both {}", d.tfrecords_dir);
  return out;
}

}  // namespace kinema::resolve
