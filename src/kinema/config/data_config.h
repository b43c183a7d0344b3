#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"

namespace kinema::config {

/// Where samples come from and in which order.
struct DataConfig {
  DatasetType dataset_type = DatasetType::TFRECORD;
  std::string train_data_dir;
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
  std::string caption_column = "text";
  int64_t frame_stride = 1;
  double target_fps = 0;
  bool random_start = false;
  bool center_crop = true;
  bool random_flip = false;
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
    visit(
        "dataset_type", self.dataset_type, MUST_MATCH,
        {.help = "videos, images: a folder of clips or pictures, or tars, and their captions; hf: "
                 "Parquet or Arrow files of a Hugging Face data set; tf, grain: as tfrecord, or as "
                 "hf where dataset_name is given and train_data_dir is not",
         .one_of = choices(self.dataset_type)});
    visit("train_data_dir", self.train_data_dir, MAY_CHANGE,
          {.help = "folder of TFRecords, videos or Parquet files"});
    visit("cache_latents_text_encoder_outputs", self.cache_latents_text_encoder_outputs, MAY_CHANGE,
          {.help = "encode each clip once and keep its latents and text states"});
    visit("dataset_save_location", self.dataset_save_location, MAY_CHANGE,
          {.help = "videos: a folder where they are kept, encoded before the first step of the run "
                   "that misses them; empty: in memory"});
    visit("load_tfrecord_cached", self.load_tfrecord_cached, UNRELATED,
          {.help = "records hold latents and text states, as all do: false has no meaning"});
    visit("enable_data_shuffling", self.enable_data_shuffling, MUST_MATCH,
          {.help = "order by (seed, position) instead of as stored"});
    visit("reuse_example_batch", self.reuse_example_batch, MAY_CHANGE,
          {.help = "train on the first batch for ever"});
    visit("max_train_samples", self.max_train_samples, MUST_MATCH,
          {.help = "use only the first so many samples; -1: all", .min = -1});
    visit("resolution", self.resolution, UNRELATED,
          {.help = "height and width where neither is given; 0: their defaults",
           .min = 0,
           .max = 65536});
    visit("skip_bad_clips", self.skip_bad_clips, MAY_CHANGE,
          {.help = "name a clip that cannot be read and go on, instead of stopping"});
    visit("allow_dataset_shrink", self.allow_dataset_shrink, MAY_CHANGE,
          {.help = "go on where more than half of the clips cannot be used for one and the same "
                   "reason, like too few frames, instead of stopping"});
    visit("alpha_background", self.alpha_background, MAY_CHANGE,
          {.help = "what is seen through transparent parts of pictures and clips, a colour in "
                   "quotes; drop: the colours that are stored there",
           .one_of = "white | black | grey | #rrggbb | drop",
           .share = Share::YES});
    visit("buckets", self.buckets, MUST_MATCH,
          {.help = "sizes that videos are brought to, each clip to the nearest: a list of [frames, "
                   "height, width]; auto: records keep the sizes that they have; []: one size"});
    visit("caption_column", self.caption_column, MAY_CHANGE,
          {.help = "name of the caption in the metadata or the data set"});
    visit("frame_stride", self.frame_stride, MAY_CHANGE,
          {.help = "every n-th frame of a clip", .min = 1, .max = 1000, .needs = {Needs::VIDEOS}});
    visit(
        "target_fps", self.target_fps, MAY_CHANGE,
        {.help = "frames a second that clips are brought to by their time stamps, like 16 for Wan; "
                 "0: frames as they are stored, frame_stride apart",
         .min = 0,
         .max = 240,
         .needs = {Needs::VIDEOS}});
    visit("random_start", self.random_start, MAY_CHANGE,
          {.help = "a clip's frames begin at a place chosen by (seed, position), not the middle",
           .needs = {Needs::VIDEOS}});
    visit("center_crop", self.center_crop, MAY_CHANGE,
          {.help = "frames of another shape are cropped in the middle; false: at a place chosen by "
                   "(seed, position), or once by the clip and seed with dataset_save_location"});
    visit("random_flip", self.random_flip, MAY_CHANGE, {.help = "mirror half of the clips"});
    visit("prefetch_batches", self.prefetch_batches, UNRELATED,
          {.help = "batches made ready ahead of the step", .min = 1, .max = 1024});
    visit("decode_threads", self.decode_threads, UNRELATED,
          {.help = "threads that read and decode", .min = 1, .max = 1024});

    visit("synthetic_num_samples", self.synthetic_num_samples, MUST_MATCH,
          {.help = "batches before the synthetic data repeat; -1 or null: no end",
           .min = -1,
           .null_is_default = true});
    visit("synthetic_override_height", self.synthetic_override_height, MAY_CHANGE,
          {.help = "instead of height; 0: no override, as in all of these", .min = 0});
    visit("synthetic_override_width", self.synthetic_override_width, MAY_CHANGE,
          {.help = "instead of width", .min = 0});
    visit("synthetic_override_num_frames", self.synthetic_override_num_frames, MAY_CHANGE,
          {.help = "instead of num_frames", .min = 0, .needs = {Needs::VIDEOS}});
    visit("synthetic_override_max_sequence_length", self.synthetic_override_max_sequence_length,
          MAY_CHANGE, {.help = "instead of max_sequence_length", .min = 0});
    visit("synthetic_override_text_embed_dim", self.synthetic_override_text_embed_dim, MAY_CHANGE,
          {.help = "instead of the model's text_dim", .min = 0});
    visit("synthetic_override_num_channels_latents", self.synthetic_override_num_channels_latents,
          MAY_CHANGE, {.help = "instead of the model's channels", .min = 0});
    visit("synthetic_override_vae_scale_factor_spatial",
          self.synthetic_override_vae_scale_factor_spatial, MAY_CHANGE,
          {.help = "instead of the autoencoder's", .min = 0});
    visit("synthetic_override_vae_scale_factor_temporal",
          self.synthetic_override_vae_scale_factor_temporal, MAY_CHANGE,
          {.help = "instead of the autoencoder's", .min = 0, .needs = {Needs::VIDEOS}});

    visit("tfrecords_dir", self.tfrecords_dir, UNRELATED,
          {.help = "folder that prepare writes shards to"});
    visit("no_records_per_shard", self.no_records_per_shard, UNRELATED,
          {.help = "records in a shard; 0: 64, or fewer where those exceed 128 MB", .min = 0});
    visit("records_dtype", self.records_dtype, MAY_CHANGE,
          {.help = "dtype of latents and text states in records and in "
                   "dataset_save_location",
           .one_of = choices(self.records_dtype)});
    visit(
        "enable_eval_timesteps", self.enable_eval_timesteps, UNRELATED,
        {.help = "prepare writes the first num_eval_samples clips with timesteps, and no others"});
    visit("eval_tfrecords_dir", self.eval_tfrecords_dir, UNRELATED,
          {.help = "prepare writes the first num_eval_samples clips with timesteps here, and the "
                   "others to tfrecords_dir"});
    visit("timesteps_list", self.timesteps_list, MAY_CHANGE,
          {.help = "timesteps of the evaluation, shared out evenly",
           .min = 0,
           .max = 1000,
           .min_items = 1});
    visit("num_eval_samples", self.num_eval_samples, MAY_CHANGE,
          {.help = "clips set aside for evaluation", .min = 0});
    visit("dataset_name", self.dataset_name, MAY_CHANGE,
          {.help = "dataset_type hf without train_data_dir: a folder, or a data set's id on the "
                   "hub (org/name, org/name@revision)"});
    visit("train_split", self.train_split, MUST_MATCH,
          {.help = "the split that is read: of hf, and of folders named for several"});
    visit("image_column", self.image_column, MAY_CHANGE,
          {.help = "dataset_type hf: the column of videos or images"});
    visit("hf_data_dir", self.hf_data_dir, MUST_MATCH,
          {.help = "dataset_type hf: only files below this folder of the data set"});
    visit("hf_train_files", self.hf_train_files, MUST_MATCH,
          {.help = "dataset_type hf: only files that fit this pattern, like data/train-*.parquet"});
  }
};

}  // namespace kinema::config
