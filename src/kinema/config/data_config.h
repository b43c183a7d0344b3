#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"

namespace kinema::config {

/// The data set, and the order and preprocessing of its samples.
struct DataConfig {
  DatasetType dataset_type = DatasetType::TFRECORD;
  std::string train_data_dir;
  Tree datasets{"[]"};
  bool cache_latents_text_encoder_outputs = true;
  std::string dataset_save_location;
  bool load_tfrecord_cached = true;
  bool enable_data_shuffling = true;
  bool reuse_example_batch = false;
  int64_t max_train_samples = -1;
  int64_t resolution = 0;
  bool skip_bad_clips = false;
  bool allow_dataset_shrink = false;
  std::string alpha_background = "white";
  Tree buckets{"[]"};
  int64_t bucket_area = 0;
  int64_t bucket_step = 64;
  int64_t bucket_min = 256;
  int64_t bucket_max = 2048;
  bool bucket_upscale = true;
  std::string caption_column = "text";
  CaptionLines caption_lines = CaptionLines::JOINED;
  bool caption_wildcards = false;
  bool caption_shuffle_tags = false;
  int64_t caption_keep_tags = 0;
  std::string caption_keep_separator;
  double caption_tag_dropout = 0;
  std::string caption_separator = ",";
  int64_t caption_variants = 8;
  int64_t frame_stride = 1;
  double target_fps = 0;
  bool random_start = false;
  bool center_crop = true;
  bool random_flip = false;
  bool color_aug = false;
  std::vector<std::string> training_masks{"strokes", "boxes", "all"};
  bool alpha_mask = false;
  std::string mask_dir;
  std::string reg_data_dir;
  double prior_loss_weight = 1;
  int64_t prefetch_batches = 4;
  int64_t decode_threads = 2;

  int64_t synthetic_num_samples = -1;
  int64_t synthetic_override_height = 0;
  int64_t synthetic_override_width = 0;
  int64_t synthetic_override_num_frames = 0;
  int64_t synthetic_override_max_sequence_length = 0;
  int64_t synthetic_override_text_embed_dim = 0;
  int64_t synthetic_override_num_channels_latents = 0;
  int64_t synthetic_override_vae_scale_factor_spatial = 0;
  int64_t synthetic_override_vae_scale_factor_temporal = 0;

  std::string tfrecords_dir;
  int64_t no_records_per_shard = 0;
  Dtype records_dtype = Dtype::FLOAT32;
  std::string eval_tfrecords_dir;
  bool enable_eval_timesteps = false;
  std::vector<int64_t> timesteps_list = {125, 250, 375, 500, 625, 750, 875};
  int64_t num_eval_samples = 420;

  std::string dataset_name = "diffusers/pokemon-gpt4-captions";
  std::string train_split = "train";
  std::string image_column = "image";
  std::string hf_data_dir;
  std::string hf_train_files;

  bool operator==(const DataConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("dataset_type", self.dataset_type, MUST_MATCH,
          {.help = "videos, images: folder or tars of clips or pictures with captions; hf: Parquet "
                   "or Arrow files of a Hugging Face dataset; tf, grain: like tfrecord, or like hf "
                   "where dataset_name is given and train_data_dir is not",
           .one_of = choices(self.dataset_type)});
    visit("train_data_dir", self.train_data_dir, MAY_CHANGE,
          {.help = "folder of TFRecords, videos or Parquet files", .in_store = true});
    visit("datasets", self.datasets, MAY_CHANGE,
          {.help = "several data sets in one run, instead of train_data_dir: a list of {path: "
                   "FOLDER}, each with weight (relative) or repeats, and with its own height, "
                   "width, buckets, random_flip and caption keys"});
    visit("cache_latents_text_encoder_outputs", self.cache_latents_text_encoder_outputs, MAY_CHANGE,
          {.help = "encode each clip once and cache its latents and text embeddings"});
    visit("dataset_save_location", self.dataset_save_location, MAY_CHANGE,
          {.help = "videos: folder for cached latents and text embeddings, which are computed "
                   "before the first step; empty: cache in memory",
           .in_store = true});
    visit("load_tfrecord_cached", self.load_tfrecord_cached, UNRELATED,
          {.help = "ignored: records always hold latents and text embeddings"});
    visit("enable_data_shuffling", self.enable_data_shuffling, MUST_MATCH,
          {.help = "shuffle by (seed, position); false: stored order"});
    visit("reuse_example_batch", self.reuse_example_batch, MAY_CHANGE,
          {.help = "train on the first batch only"});
    visit("max_train_samples", self.max_train_samples, MUST_MATCH,
          {.help = "use only the first samples; -1: all", .min = -1});
    visit("resolution", self.resolution, UNRELATED,
          {.help = "sets height and width where neither is given; 0: their defaults",
           .min = 0,
           .max = 65536});
    visit("skip_bad_clips", self.skip_bad_clips, MAY_CHANGE,
          {.help = "skip unreadable clips and name them, instead of stopping"});
    visit("allow_dataset_shrink", self.allow_dataset_shrink, MAY_CHANGE,
          {.help = "continue when more than half of the clips are unusable for the same reason, "
                   "such as too few frames"});
    visit("alpha_background", self.alpha_background, MAY_CHANGE,
          {.help = "background colour behind transparent pixels of pictures and clips, in quotes; "
                   "drop: use the stored colours",
           .one_of = "white | black | grey | #rrggbb | drop",
           .share = Share::YES});
    visit("buckets", self.buckets, MUST_MATCH,
          {.help =
               "aspect ratio and length buckets: a list of [frames, height, width], each clip "
               "goes to the nearest; auto: sizes as stored in records, and for clips every aspect "
               "ratio at bucket_area; []: one size"});
    visit("bucket_area", self.bucket_area, MUST_MATCH,
          {.help = "buckets=auto of clips: most pixels of a bucket; 0: height * width", .min = 0});
    visit("bucket_step", self.bucket_step, MUST_MATCH,
          {.help = "buckets=auto of clips: sides are multiples of this", .min = 1, .max = 1024});
    visit("bucket_min", self.bucket_min, MUST_MATCH,
          {.help = "buckets=auto of clips: shortest side", .min = 1, .max = 65536});
    visit("bucket_max", self.bucket_max, MUST_MATCH,
          {.help = "buckets=auto of clips: longest side", .min = 1, .max = 65536});
    visit(
        "bucket_upscale", self.bucket_upscale, MUST_MATCH,
        {.help = "buckets=auto of clips: enlarge clips below bucket_area; false: they are cropped "
                 "to multiples of bucket_step"});
    visit("caption_column", self.caption_column, MAY_CHANGE,
          {.help = "name of the caption column or metadata field"});
    visit("caption_lines", self.caption_lines, MAY_CHANGE,
          {.help = "captions of several lines. joined: one caption; any: each line is a caption of "
                   "its own, one of which a sample has",
           .one_of = choices(self.caption_lines)});
    visit("caption_wildcards", self.caption_wildcards, MAY_CHANGE,
          {.help = "{a|b|c} in a caption is one of a, b and c; {{ and }} are braces"});
    visit("caption_shuffle_tags", self.caption_shuffle_tags, MAY_CHANGE,
          {.help = "shuffle the tags of a caption, which caption_separator separates"});
    visit("caption_keep_tags", self.caption_keep_tags, MAY_CHANGE,
          {.help = "number of first tags that are neither shuffled nor dropped", .min = 0});
    visit("caption_keep_separator", self.caption_keep_separator, MAY_CHANGE,
          {.help = "instead of a number, a text after the tags to keep, such as |||"});
    visit("caption_tag_dropout", self.caption_tag_dropout, MAY_CHANGE,
          {.help = "fraction of tags left out of a caption", .min = 0, .max = 1});
    visit("caption_separator", self.caption_separator, MAY_CHANGE, {.help = "text between tags"});
    visit("caption_variants", self.caption_variants, MAY_CHANGE,
          {.help = "number of captions made of a clip's by caption_lines=any, wildcards, shuffling "
                   "and dropout, of which a sample has one; each is encoded once",
           .min = 1,
           .max = 10000});
    visit("frame_stride", self.frame_stride, MAY_CHANGE,
          {.help = "use every n-th frame of a clip",
           .min = 1,
           .max = 1000,
           .needs = {Needs::VIDEOS}});
    visit("target_fps", self.target_fps, MAY_CHANGE,
          {.help = "resample clips to this frame rate by their time stamps, such as 16 for Wan; 0: "
                   "stored frames, frame_stride apart",
           .min = 0,
           .max = 240,
           .needs = {Needs::VIDEOS}});
    visit("random_start", self.random_start, MAY_CHANGE,
          {.help = "start a clip's frames at a position chosen by (seed, position), instead of the "
                   "middle",
           .needs = {Needs::VIDEOS}});
    visit("center_crop", self.center_crop, MAY_CHANGE,
          {.help = "crop frames of other aspect ratios in the centre; false: at random by (seed, "
                   "position), or once per clip and seed with dataset_save_location"});
    visit("random_flip", self.random_flip, MAY_CHANGE,
          {.help = "mirror half of the clips horizontally"});
    visit("color_aug", self.color_aug, MAY_CHANGE,
          {.help = "change the hue or gamma of a third of the samples slightly, as in kohya's "
                   "scripts, by (seed, position); not with dataset_save_location"});
    visit("training_masks", self.training_masks, MAY_CHANGE,
          {.help = "inpainting models: kinds of random masks, strokes, boxes or all (of the "
                   "picture), for clips without a control_mask, by (seed, position), or once per "
                   "clip and seed with dataset_save_location"});
    visit(
        "alpha_mask", self.alpha_mask, MAY_CHANGE,
        {.help = "masked loss: each latent's loss is multiplied by the mean alpha of its pixels"});
    visit(
        "mask_dir", self.mask_dir, MAY_CHANGE,
        {.help = "masked loss: folder of pictures with the names of the clips; each latent's loss "
                 "is multiplied by the mean of the red channel (white: 1)"});
    visit("reg_data_dir", self.reg_data_dir, MAY_CHANGE,
          {.help = "folder of regularization pictures (such as 1_dog/): half of the samples, with "
                   "prior_loss_weight"});
    visit("prior_loss_weight", self.prior_loss_weight, MAY_CHANGE,
          {.help = "weight of regularization pictures in the loss", .min = 0, .max = 1000});
    visit("prefetch_batches", self.prefetch_batches, UNRELATED,
          {.help = "number of batches to prefetch", .min = 1, .max = 1024});
    visit("decode_threads", self.decode_threads, UNRELATED,
          {.help = "number of threads that read and decode", .min = 1, .max = 1024});

    visit("synthetic_num_samples", self.synthetic_num_samples, MUST_MATCH,
          {.help = "number of synthetic batches before they repeat; -1 or null: unlimited",
           .min = -1,
           .null_is_default = true});
    visit(
        "synthetic_override_height", self.synthetic_override_height, MAY_CHANGE,
        {.help = "overrides height; 0: no override, as for all synthetic_override keys", .min = 0});
    visit("synthetic_override_width", self.synthetic_override_width, MAY_CHANGE,
          {.help = "overrides width", .min = 0});
    visit("synthetic_override_num_frames", self.synthetic_override_num_frames, MAY_CHANGE,
          {.help = "overrides num_frames", .min = 0, .needs = {Needs::VIDEOS}});
    visit("synthetic_override_max_sequence_length", self.synthetic_override_max_sequence_length,
          MAY_CHANGE, {.help = "overrides max_sequence_length", .min = 0});
    visit("synthetic_override_text_embed_dim", self.synthetic_override_text_embed_dim, MAY_CHANGE,
          {.help = "overrides the model's text_dim", .min = 0});
    visit("synthetic_override_num_channels_latents", self.synthetic_override_num_channels_latents,
          MAY_CHANGE, {.help = "overrides the model's latent channels", .min = 0});
    visit("synthetic_override_vae_scale_factor_spatial",
          self.synthetic_override_vae_scale_factor_spatial, MAY_CHANGE,
          {.help = "overrides the autoencoder's factor", .min = 0});
    visit("synthetic_override_vae_scale_factor_temporal",
          self.synthetic_override_vae_scale_factor_temporal, MAY_CHANGE,
          {.help = "overrides the autoencoder's factor", .min = 0, .needs = {Needs::VIDEOS}});

    visit("tfrecords_dir", self.tfrecords_dir, UNRELATED,
          {.help = "output folder of prepare", .in_store = true});
    visit("no_records_per_shard", self.no_records_per_shard, UNRELATED,
          {.help = "records per shard; 0: 64, or fewer where those exceed 128 MB", .min = 0});
    visit("records_dtype", self.records_dtype, MAY_CHANGE,
          {.help = "dtype of latents and text embeddings in records and in dataset_save_location",
           .one_of = choices(self.records_dtype)});
    visit("enable_eval_timesteps", self.enable_eval_timesteps, UNRELATED,
          {.help = "prepare writes only the first num_eval_samples clips, with timesteps"});
    visit("eval_tfrecords_dir", self.eval_tfrecords_dir, UNRELATED,
          {.help = "prepare writes the first num_eval_samples clips with timesteps here, and the "
                   "rest to tfrecords_dir",
           .in_store = true});
    visit("timesteps_list", self.timesteps_list, MAY_CHANGE,
          {.help = "evaluation timesteps, distributed evenly over the samples",
           .min = 0,
           .max = 1000,
           .min_items = 1});
    visit("num_eval_samples", self.num_eval_samples, MAY_CHANGE,
          {.help = "number of clips for evaluation", .min = 0});
    visit("dataset_name", self.dataset_name, MAY_CHANGE,
          {.help = "dataset_type hf without train_data_dir: folder or hub id of the dataset "
                   "(org/name, org/name@revision)"});
    visit("train_split", self.train_split, MUST_MATCH,
          {.help = "split to read: of hf, and of folders named after splits"});
    visit("image_column", self.image_column, MAY_CHANGE,
          {.help = "dataset_type hf: column with videos or images"});
    visit("hf_data_dir", self.hf_data_dir, MUST_MATCH,
          {.help = "dataset_type hf: only files below this folder of the dataset"});
    visit(
        "hf_train_files", self.hf_train_files, MUST_MATCH,
        {.help =
             "dataset_type hf: only files that match this pattern, such as data/train-*.parquet"});
  }
};

/// True if samples are clips that the run encodes.
inline bool has_clips(const DataConfig& data) {
  return data.dataset_type == DatasetType::VIDEOS || data.dataset_type == DatasetType::HF;
}

}  // namespace kinema::config
