#include "kinema/resolve/dataset.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "kinema/config/buckets.h"
#include "kinema/config/datasets.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/dataset_type.h"
#include "kinema/encoders/clip_sizes.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/records/tfrecord.h"
#include "kinema/remote/store.h"
#include "kinema/remote/store_records.h"
#include "kinema/resolve/dataset_list.h"
#include "kinema/resolve/encoder_settings.h"
#include "kinema/resolve/encoders.h"
#include "kinema/stores/local_copies.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

bool is_clips(std::optional<config::DatasetType> type) {
  return type == config::DatasetType::VIDEOS || type == config::DatasetType::HF;
}

/// The local copy of a data set, or the path itself if records are read directly from their store.
/// `type`: its dataset_type; nothing: derived from its files.
std::string copy_or_store(const std::string& path, std::optional<config::DatasetType> type,
                          const Job& job) {
  const auto stored = remote::read_store_path(path);
  if (!stored || is_clips(type)) {
    return stores::local_copy(path, job);
  }
  const std::vector<remote::StoredFile> files = remote::Store(*stored).list();
  std::vector<std::string> names;
  for (const remote::StoredFile& file : files) {
    names.push_back(file.name);
  }
  if (!type && is_clips(config::choice_of<config::DatasetType>(data::detect_dataset_type(names)))) {
    return stores::local_copy(path, job);
  }
  int64_t bytes = 0;
  for (const remote::StoredFile& shard : remote::record_shards(files)) {
    bytes += shard.size;
  }
  return bytes > remote::records_to_copy() ? path : stores::local_copy(path, job);
}

data::ClipFormat clip_format(const config::Config& config) {
  return {.height = config.generate.height,
          .width = config.generate.width,
          .num_frames = config.generate.num_frames,
          .frame_stride = config.data.frame_stride,
          .fps = config.data.target_fps,
          .background = media::read_background(config.data.alpha_background)};
}

data::VideoOptions clip_order(const config::Config& config) {
  const config::DataConfig& d = config.data;
  data::VideoOptions out;
  out.max_samples = d.max_train_samples;
  out.format = clip_format(config);
  out.random_start = d.random_start;
  out.center_crop = d.center_crop;
  out.random_flip = d.random_flip;
  out.color_change = d.color_aug;
  out.alpha_mask = d.alpha_mask;
  out.shuffle = d.enable_data_shuffling;
  out.seed = static_cast<uint64_t>(config.run.seed);
  out.bad_clip = d.skip_bad_clips ? data::BadClip::Skip : data::BadClip::Fail;
  if (!d.cache_latents_text_encoder_outputs) {
    out.cache_bytes = 0;
  }
  out.captions = {.any_line = d.caption_lines == config::CaptionLines::ANY,
                  .wildcards = d.caption_wildcards,
                  .shuffle = d.caption_shuffle_tags,
                  .dropout = d.caption_tag_dropout,
                  .separator = d.caption_separator,
                  .keep = d.caption_keep_tags,
                  .keep_separator = d.caption_keep_separator,
                  .variants = d.caption_variants,
                  .seed = out.seed};
  return out;
}

data::Split split_of(const config::Config& config, data::Split::Part part) {
  return {
      .part = part, .share = config.run.eval_split, .seed = static_cast<uint64_t>(config.run.seed)};
}

/// Pixels per side of a latent cell if no VAE is opened; 8 in image VAEs and most video VAEs.
int64_t cell_side(const config::Config& config) {
  constexpr int64_t kVae = 8;
  return config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH
             ? model_source::space_to_depth(config).side()
             : kVae;
}

/// The override if it is positive, else the value.
int64_t or_else(int64_t override_value, int64_t value) {
  return override_value > 0 ? override_value : value;
}

data::SyntheticOptions synthetic(const config::Config& config, const networks::Sizes& model,
                                 int64_t batch) {
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
  const networks::NamedInput* input = model.stored_input();
  options.condition_channels = input == nullptr || input->optional ? 0 : input->channels;
  options.condition_cell = input == nullptr ? 1 : input->cell;
  options.image_dim = model.image_dim;
  options.image_tokens = model.image_tokens;
  options.pooled_dim = model.pooled_dim;
  options.sizes = model.size_ids > 0;
  options.vae_scale_factor_spatial =
      or_else(d.synthetic_override_vae_scale_factor_spatial, cell_side(config));
  options.vae_scale_factor_temporal = or_else(
      d.synthetic_override_vae_scale_factor_temporal,
      blocks ? model_source::space_to_depth(config).frames() : options.vae_scale_factor_temporal);
  options.first_frame_alone = !blocks;
  encoders::check_clip_sizes(options.num_frames, options.height, options.width,
                             {.spatial = options.vae_scale_factor_spatial,
                              .temporal = options.vae_scale_factor_temporal,
                              .first_frame_alone = options.first_frame_alone},
                             model.patch_size, model.max_positions);
  // MaxDiffusion's num_samples is a number of batches.
  options.num_samples = d.synthetic_num_samples < 0 ? 0 : d.synthetic_num_samples * batch;
  options.seed = static_cast<uint64_t>(config.run.seed);
  return options;
}

/// The dataset_type of the files in eval_data_dir.
config::DatasetType type_of_evaluation(const std::string& folder) {
  check(!folder.empty(),
        "[config] evaluation needs samples, but eval_data_dir is empty\n"
        "  `kinema prepare` writes them with eval_tfrecords_dir=..., and eval_split holds out some "
        "of the training's");
  if (remote::is_store_path(folder)) {
    return config::DatasetType::TFRECORD;
  }
  std::error_code error;
  check(fs::is_directory(folder, error), "[config] eval_data_dir {} {}", folder,
        not_a_folder(folder));
  const std::vector<std::string> names = data::file_names(folder);
  const std::string found = data::detect_dataset_type(names);
  const std::string unread = data::unread_files(names);
  // Records may have names of any kind.
  check(!found.empty() || (unread.empty() && !records::shards_of(names).empty()),
        "[config] eval_data_dir {} holds no clips, pictures or records\n  {}", folder,
        unread.empty() ? "put videos or images there with a .txt for each, or the records of "
                         "`kinema prepare` with eval_tfrecords_dir"
                       : unread);
  return config::choice_of<config::DatasetType>(found).value_or(config::DatasetType::TFRECORD);
}

datasets::Dataset dataset(const config::Config& config, const networks::Sizes& model, int64_t batch,
                          data::Split::Part part) {
  const config::DataConfig& d = config.data;
  if (d.dataset_type == config::DatasetType::SYNTHETIC) {
    return synthetic(config, model, batch);
  }
  check(d.dataset_type == config::DatasetType::HF || !d.train_data_dir.empty() ||
            !config::read_datasets(d).empty(),
        "[config] train_data_dir is empty: where are the {}?",
        d.dataset_type == config::DatasetType::VIDEOS ? "clips or pictures" : "TFRecords");
  if (config::has_clips(d)) {
    return clip_settings(config, part);
  }
  const char* key = !d.reg_data_dir.empty()             ? "reg_data_dir"
                    : !d.mask_dir.empty()               ? "mask_dir"
                    : !config::read_datasets(d).empty() ? "datasets"
                                                        : nullptr;
  check(key == nullptr, "[config] {} is for dataset_type videos or images, but it is {}",
        key == nullptr ? "" : key, config::word_of(d.dataset_type));
  // tfrecord, tf or grain: names from MaxDiffusion for the same reader.
  return datasets::RecordSettings{.records = {.folder = d.train_data_dir,
                                              .seed = static_cast<uint64_t>(config.run.seed),
                                              .shuffle = d.enable_data_shuffling,
                                              .max_samples = d.max_train_samples,
                                              .by_shape = config::read_buckets(d).on,
                                              .split = split_of(config, part)},
                                  .cell_side = cell_side(config)};
}

}  // namespace

datasets::ClipSettings clip_settings(const config::Config& config, data::Split::Part part) {
  const config::DataConfig& d = config.data;
  data::SampleSizes sizes = sample_sizes(config);
  std::optional<data::DatasetFile> sets = dataset_list(config, clip_format(config), part);
  datasets::ClipSettings out{
      .name = d.train_data_dir.empty() && sets ? "datasets" : d.train_data_dir,
      .folder = d.train_data_dir,
      .split_name = d.train_split,
      .caption_column = d.caption_column,
      .hub = std::nullopt,
      .sets = std::move(sets),
      .mask_folder = d.mask_dir,
      .split = split_of(config, part),
      .buckets = std::move(sizes.buckets),
      .automatic = sizes.automatic,
      .order = clip_order(config),
      .video_fps = static_cast<double>(config.generate.fps),
      .allow_shrink = d.allow_dataset_shrink,
      .threads = static_cast<int>(d.decode_threads),
      .decode_ahead = d.prefetch_batches,
      .kept = std::nullopt,
      // Without a run, there is no run folder for the evaluation.
      .run = config.run.run_name.empty() ? fs::path() : config::run_folder(config)};
  check(!d.training_masks.empty(),
        "[config] training_masks is empty, expected some of strokes, boxes and all");
  std::ranges::transform(d.training_masks, std::back_inserter(out.mask_kinds),
                         data::mask_kind_from_string);
  check(d.dataset_type != config::DatasetType::HF || d.mask_dir.empty(),
        "[config] mask_dir is for folders of clips, but dataset_type is hf\n  alpha_mask=true uses "
        "the pictures' alpha channels");
  if (d.dataset_type == config::DatasetType::HF) {
    const bool named = d.train_data_dir.empty();
    out.name = named ? d.dataset_name : d.train_data_dir;
    out.hub = {.folder = out.name,
               .split = d.train_split,
               .data_dir = d.hf_data_dir,
               .files = d.hf_train_files.empty() ? std::vector<std::string>{}
                                                 : std::vector<std::string>{d.hf_train_files},
               .media_column = d.image_column,
               .caption_column = d.caption_column};
    std::error_code ignored;
    out.downloads = named && !fs::exists(out.name, ignored);
  }
  if (!d.dataset_save_location.empty() && d.cache_latents_text_encoder_outputs) {
    out.kept = {.folder = d.dataset_save_location, .dtype = model_source::dtype(d.records_dtype)};
  }
  return out;
}

config::Loaded with_local_data(config::Loaded loaded, const Job& job) {
  config::DataConfig& data = loaded.config.data;
  config::RunConfig& run = loaded.config.run;
  if (data.dataset_type != config::DatasetType::SYNTHETIC) {
    data.train_data_dir = copy_or_store(data.train_data_dir, data.dataset_type, job);
  }
  if (run.eval_every > 0) {
    run.eval_data_dir = copy_or_store(run.eval_data_dir, std::nullopt, job);
  }
  return loaded;
}

Settings with_clips(const Settings& settings, const std::string& folder) {
  const auto type = [](const config::Config& config) { return config.data.dataset_type; };
  Settings out = settings.with("datasets", "[]").with("train_data_dir", folder);
  if (!is_clips(type(out))) {
    const std::string found = data::is_dataset_file(folder)
                                  ? "videos"
                                  : data::detect_dataset_type(data::file_names(folder));
    out = out.with("dataset_type", found.empty() ? "videos" : found);
  }
  check(is_clips(type(out)),
        "[data] a preview shows pictures or clips, but dataset_type is {}\n  dataset_type=videos, "
        "images or hf, or a folder of those",
        config::word_of(type(out)));
  return out;
}

int64_t samples_per_device(const config::Config& config) {
  return config::batch_sizes(config, 1).load;
}

datasets::Dataset training_dataset(const config::Config& config, const networks::Sizes& model,
                                   int64_t batch) {
  return dataset(config, model, batch, data::Split::Part::TRAINED);
}

datasets::Dataset evaluation_dataset(const config::Config& config, const networks::Sizes& model,
                                     int64_t batch) {
  config::Config eval = config;
  const bool is_split = config.run.eval_split > 0 && config.run.eval_data_dir.empty();
  if (!is_split) {
    eval.data.train_data_dir = config.run.eval_data_dir;
    eval.data.datasets = {"[]"};
    eval.data.mask_dir.clear();
    eval.data.reg_data_dir.clear();
    eval.data.dataset_type = type_of_evaluation(config.run.eval_data_dir);
  }
  eval.data.enable_data_shuffling = false;
  eval.data.random_start = false;
  eval.data.center_crop = true;
  eval.data.random_flip = false;
  eval.data.color_aug = false;
  eval.data.caption_shuffle_tags = false;
  eval.data.caption_tag_dropout = 0;
  eval.data.caption_variants = 1;
  // Clips have no timesteps: only the first num_eval_samples are evaluated.
  eval.data.max_train_samples = config::has_clips(eval.data) ? config.data.num_eval_samples : -1;
  eval.data.buckets = {"[]"};
  return dataset(eval, model, batch,
                 is_split ? data::Split::Part::HELD_OUT : data::Split::Part::ALL);
}

datasets::ClipReport evaluation_report() {
  return {.what = "evaluation data", .file = "skipped_evaluation.jsonl"};
}

datasets::ClipEncoders clip_encoders(const Settings& settings, const networks::Sizes& model,
                                     const pjrt::Client& client, const Job& job,
                                     const model_source::TextAdapters& trained) {
  const TextWidths widths = text_widths(model);
  const bool ids = model.text_is_ids || model.pooled_is_ids;
  return {
      .autoencoder = [settings, client] { return make_autoencoder(settings, client); },
      .text =
          [settings, model, widths, client, job, ids, trained] {
            return ids ? make_ids_encoder(settings, model, client, job)
                       : make_text_encoder(settings, widths, client, job, TextUse::CAPTIONS,
                                           trained);
          },
      .image = [settings, client](int64_t image_dim) -> std::unique_ptr<encoders::ImageEncoder> {
        const std::optional<sample::PipelineFolder> pipeline =
            model_source::pipeline_index(settings);
        return pipeline ? make_image_encoder(settings, *pipeline, image_dim, client) : nullptr;
      },
      .pixels_settings =
          [settings](preparation::ContentIndex& models) {
            return pixels_settings(settings, models);
          },
      .text_settings =
          [settings, widths, ids, trained](preparation::ContentIndex& models) {
            preparation::Settings out = text_settings(settings, widths, models);
            if (ids) {
              out["clip"] = "token ids";
              const config::OptimizerConfig& o =
                  static_cast<const config::Config&>(settings).optimizer;
              for (const std::string& word : o.textual_inversion) {
                out["words"] += fmt::format("{} of {}\n", word, o.textual_inversion_vectors);
              }
            }
            for (const fs::path& path : trained.files()) {
              out["trained text"] += models.hash_of(path) + "\n";
            }
            return out;
          }};
}

}  // namespace kinema::resolve
