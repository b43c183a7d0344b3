#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/core/shape.h"
#include "kinema/data/video_source.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/clip_condition.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/networks/named_input.h"
#include "kinema/preparation/shard_folder.h"
#include "kinema/world/world.h"

/// Encodes videos and captions to shards of latents and text states.
namespace kinema::preparation {

struct Options {
  std::shared_ptr<const data::ClipSet> clips;
  std::string name = "the folder";  // of the clips, in messages
  /// Only the first `max_clips` clips; negative: all.
  int64_t max_clips = -1;
  /// Earlier clips are skipped.
  int64_t first_clip = 0;
  /// The frames are the middle of each clip.
  data::ClipFormat format;
  /// Sizes of clips, instead of the format's. Records are written bucket by bucket, without shards
  /// of several buckets; clips without a bucket are skipped.
  std::vector<data::Bucket> buckets = {};
  /// Clips without a mask of their own get one of these kinds, which depends on the seed and their
  /// path in their set.
  std::vector<data::MaskKind> mask_kinds = {};
  uint64_t mask_seed = 0;
  /// The alpha channels of pictures are masks of the loss.
  bool alpha_mask = false;
  /// Clips of data sets with sizes of their own (ClipSet::sets) get those.
  bool own_sizes = false;

  std::filesystem::path output;
  DType dtype = DType::F32;  // of the records: F32 or BF16
  /// 0: 64, or fewer if those exceed 128 MB.
  int64_t records_per_shard = 0;
  /// Stop after `max_records` records; negative: never.
  int64_t max_records = -1;
  /// With max_records, which must be a multiple of their number: record r gets timesteps[r /
  /// (max_records / size)]. Empty: records have no timestep.
  std::vector<int64_t> timesteps;

  /// Further settings that determine the records: models and precision.
  Settings settings;

  int decode_threads = 2;
  int64_t decode_ahead = 4;  // clips

  /// The processes that make the records together, each of which calls prepare_records with the
  /// same options: they encode clips in turn, and process 0 writes. Null: a single process.
  world::World* world = nullptr;
};

/// The models of the records.
struct Encoders {
  const encoders::Autoencoder& autoencoder;
  const encoders::TextEncoder& text;
  /// The network's input that records contain, if any.
  encoders::ClipInput input = {};
  /// Records also contain the clip's sizes, for models with size_ids.
  bool sizes = false;
  const encoders::ImageEncoder* image = nullptr;
};

/// Callbacks; any may be empty.
struct Hooks {
  /// Number of clips done and in total; with max_records, of records.
  std::function<void(int64_t done, int64_t total)> on_clip;
  std::function<void(const SkippedClip&)> on_skip;
  std::function<void(const Shard&)> on_shard;
  /// Return true to stop after this clip. The current shard is discarded; a later run makes it.
  /// Called in every process; the other callbacks only in the one that writes.
  std::function<bool()> stop_requested;
};

/// Seconds by phase; sums over several processes, except waiting and total, which are process 0's.
struct Seconds {
  double waiting = 0;  // for decoded clips
  double latents = 0;
  double text = 0;
  double image = 0;  // conditioning and image states
  double writing = 0;
  double total = 0;

  void add(const Seconds& more);
};

/// In processes that do not write, only `end_clip` and `stopped` are set.
struct Prepared {
  std::vector<Shard> shards;  // all shards in the folder
  std::vector<SkippedClip> skipped;
  std::filesystem::path skipped_list;  // the list of skipped clips; empty if there are none
  int64_t clips = 0;                   // in the list
  int64_t records = 0;                 // in all shards
  int64_t records_found = 0;           // the part that existed before
  int64_t bytes = 0;
  int64_t end_clip = 0;  // the clip after the last processed one, without buckets
  Shape latents;         // of the last record; no axes if none was made now
  Shape text;
  Shape condition;  // no axes if records have none
  Shape image;
  Seconds seconds;
  bool stopped = false;
};

/// Throws an Error if the autoencoder does not support clips of this size.
void check_sizes(const data::ClipFormat& format, const encoders::Autoencoder& autoencoder);

/// Encodes clips and writes their records, shard by shard: `file_00-64.tfrec`, then
/// `file_01-128.tfrec`; the second number is the number of records up to the shard's end, or its
/// maximum if shards end with their bucket.
///
/// If the process ends at any time, the complete shards stay, and the next call with the same
/// options makes the others; all bytes are the same as from one call. A clip that cannot be used is
/// reported and skipped.
///
/// Throws an Error if sizes do not fit the autoencoder, if no clip can be used, if there are fewer
/// usable clips than max_records, and the Errors of ShardFolder.
Prepared prepare_records(const Options& options, const Encoders& models, const Hooks& hooks = {});

}  // namespace kinema::preparation
