#include "kinema/runs/data_sources.h"

#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/picture_sizes.h"
#include "kinema/data/synthetic.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/encoders/clip_sizes.h"
#include "kinema/io/tfrecord.h"
#include "kinema/remote/store.h"
#include "kinema/runs/clip_source.h"
#include "kinema/runs/clips.h"
#include "kinema/runs/data_sets.h"
#include "kinema/runs/encoders.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// Pixels a side of a latent cell where no VAE is opened: as those of images, and most of videos,
/// have.
int64_t cell_side(const config::Config& config) {
  constexpr int64_t kVae = 8;
  return config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH
             ? space_to_depth(config).side()
             : kVae;
}

/// The override when there is one.
int64_t or_else(int64_t override_value, int64_t value) {
  return override_value > 0 ? override_value : value;
}

std::unique_ptr<data::Source> make_synthetic(const config::Config& config,
                                             const networks::Sizes& model, int64_t batch) {
  const config::DataConfig& d = config.data;
  const bool blocks = config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH;
  data::SyntheticOptions options;
  options.height = or_else(d.synthetic_override_height, config.generate.height);
  options.width = or_else(d.synthetic_override_width, config.generate.width);
  options.num_frames = or_else(d.synthetic_override_num_frames, config.generate.num_frames);
  options.max_sequence_length =
      or_else(d.synthetic_override_max_sequence_length, text_tokens(config, model));
  options.text_embed_dim = or_else(d.synthetic_override_text_embed_dim, model.text_dim);
  options.num_channels_latents =
      or_else(d.synthetic_override_num_channels_latents, model.out_channels);
  options.condition_channels = model.condition_channels();
  options.image_dim = model.image_dim;
  options.image_tokens = model.image_tokens;
  options.pooled_dim = model.pooled_dim;
  options.sizes = model.size_ids > 0;
  options.vae_scale_factor_spatial =
      or_else(d.synthetic_override_vae_scale_factor_spatial, cell_side(config));
  options.vae_scale_factor_temporal =
      or_else(d.synthetic_override_vae_scale_factor_temporal,
              blocks ? space_to_depth(config).frames() : options.vae_scale_factor_temporal);
  options.first_frame_alone = !blocks;
  encoders::check_clip_sizes(options.num_frames, options.height, options.width,
                             {.spatial = options.vae_scale_factor_spatial,
                              .temporal = options.vae_scale_factor_temporal,
                              .first_frame_alone = options.first_frame_alone},
                             model.patch_size, model.max_positions);
  // MaxDiffusion counts batches.
  options.num_samples = d.synthetic_num_samples < 0 ? 0 : d.synthetic_num_samples * batch;
  options.seed = static_cast<uint64_t>(config.run.seed);
  return data::synthetic_source(options);
}

/// What eval_data_dir holds.
config::DatasetType type_of_evaluation(const std::string& folder) {
  check(
      !folder.empty(),
      "[config] evaluation wants samples, but eval_data_dir names none\n  `kinema prepare` writes "
      "some with eval_tfrecords_dir=..., and eval_split keeps some of the training's out");
  if (remote::is_store_path(folder)) {
    return config::DatasetType::TFRECORD;
  }
  std::error_code error;
  check(fs::is_directory(folder, error), "[config] eval_data_dir {} is no folder", folder);
  const std::vector<std::string> names = data::file_names(folder);
  const std::string found = data::dataset_type_of(names);
  const std::string unread = data::unread_pictures(names);
  // Records may have names of any kind.
  check(!found.empty() || (unread.empty() && !io::shards_of(names).empty()),
        "[config] eval_data_dir {} holds no clips, pictures or records\n  {}", folder,
        unread.empty() ? "put videos or images there with a .txt beside each, or what `kinema "
                         "prepare` writes with eval_tfrecords_dir"
                       : unread);
  return config::choice_of<config::DatasetType>(found).value_or(config::DatasetType::TFRECORD);
}

}  // namespace

std::unique_ptr<data::Source> make_source(const config::Config& config,
                                          const networks::Sizes& model, int64_t batch,
                                          const pjrt::Client& client, const Job& job,
                                          const ClipReport& report, data::Split::Part part) {
  if (config.data.dataset_type == config::DatasetType::SYNTHETIC) {
    return make_synthetic(config, model, batch);
  }
  const bool videos = config.data.dataset_type == config::DatasetType::VIDEOS;
  check(config.data.dataset_type == config::DatasetType::HF || !config.data.train_data_dir.empty(),
        "[config] train_data_dir is empty: where are the {}?",
        videos ? "clips or pictures" : "TFRecords");
  if (has_clips(config.data)) {
    return make_clip_source(config, model, batch, client, job, report, part);
  }
  // tfrecord, tf or grain: other programs' names for how the same files are read.
  const std::string& folder = config.data.train_data_dir;
  const data::TfRecordOptions options{.folder = folder,
                                      .seed = static_cast<uint64_t>(config.run.seed),
                                      .shuffle = config.data.enable_data_shuffling,
                                      .max_samples = config.data.max_train_samples,
                                      .by_shape = config::read_buckets(config.data).on,
                                      .batch = batch,
                                      .split = split_of(config, part)};
  std::unique_ptr<data::Source> records =
      remote::is_store_path(folder) ? data::tfrecord_source(stored_records(folder, job), options)
                                    : data::tfrecord_source(options);
  return model.size_ids > 0 ? data::with_sizes(std::move(records), cell_side(config))
                            : std::move(records);
}

std::unique_ptr<data::Source> make_eval_source(const config::Config& config,
                                               const networks::Sizes& model, int64_t batch,
                                               const pjrt::Client& client, const Job& job) {
  config::Config eval = config;
  const bool is_split = config.run.eval_split > 0 && config.run.eval_data_dir.empty();
  if (!is_split) {
    eval.data.train_data_dir = config.run.eval_data_dir;
    eval.data.dataset_type = type_of_evaluation(config.run.eval_data_dir);
  }
  eval.data.enable_data_shuffling = false;
  eval.data.random_start = false;
  eval.data.center_crop = true;
  eval.data.random_flip = false;
  // Clips have no timesteps of their own: those behind the first num_eval_samples have no part.
  eval.data.max_train_samples = has_clips(eval.data) ? config.data.num_eval_samples : -1;
  eval.data.buckets = {"[]"};
  return make_source(eval, model, batch, client, job,
                     {.what = "evaluation data", .file = "skipped_evaluation.jsonl"},
                     is_split ? data::Split::Part::KEPT_OUT : data::Split::Part::ALL);
}

}  // namespace kinema::runs
