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
#include "kinema/encoders/image_encoder.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/preparation/shard_folder.h"
#include "kinema/world/world.h"

/// Videos and captions to shards of latents and text states.
namespace kinema::preparation {

struct Options {
  std::shared_ptr<const data::ClipSet> clips;
  std::string name = "the folder";  // of the clips, in messages
  /// Only the first so many clips; negative: all.
  int64_t max_clips = -1;
  /// Clips before this one are left out.
  int64_t first_clip = 0;
  /// Frames are the middle of each clip.
  data::ClipFormat format;
  /// Sizes of clips in place of the format's. Records are written bucket by bucket, none of which
  /// shares a shard with another; clips without a bucket are left out.
  std::vector<data::Bucket> buckets = {};

  std::filesystem::path output;
  DType dtype = DType::F32;  // of the records: F32 or BF16
  /// 0: 64, or fewer where those exceed 128 MB.
  int64_t records_per_shard = 0;
  /// Stop after so many records; negative: never.
  int64_t max_records = -1;
  /// With max_records, which must be a multiple of their number: record r gets
  /// timesteps[r / (max_records / size)]. Empty: records have none.
  std::vector<int64_t> timesteps;

  /// What decides the records beside the above: which models, in which precision.
  Settings settings;

  int decode_threads = 2;
  int64_t decode_ahead = 4;  // clips

  /// The processes that make the records together, each of which calls prepare_records with the
  /// same options: in turn each encodes a clip, and process 0 writes. Null: this one alone.
  world::World* world = nullptr;
};

/// What makes the records.
struct Encoders {
  const encoders::Autoencoder& autoencoder;
  const encoders::TextEncoder& text;
  /// Records for a model that makes videos of images also hold the condition of the clip's first
  /// frame and, with an image encoder, its tokens.
  bool image_condition = false;
  /// Records also hold the clip's sizes, for models that are told them.
  bool sizes = false;
  const encoders::ImageEncoder* image = nullptr;
};

/// Who is told what while it goes on; any may be empty.
struct Hooks {
  /// Clips done, of how many; with max_records, records.
  std::function<void(int64_t done, int64_t total)> on_clip;
  std::function<void(const SkippedClip&)> on_skip;
  std::function<void(const Shard&)> on_shard;
  /// True: end after this clip. The shard that is begun is given up; a later run makes it. Asked in
  /// every process, the only one of these that those which do not write call.
  std::function<bool()> stop_requested;
};

/// Where the time went; of several processes, what they took together, but for what process 0
/// waited and the total.
struct Seconds {
  double waiting = 0;  // for decoded clips
  double latents = 0;
  double text = 0;
  double image = 0;  // conditions and image states
  double writing = 0;
  double total = 0;

  void add(const Seconds& more);
};

/// In processes that do not write, only `end_clip` and `stopped` are known.
struct Prepared {
  std::vector<Shard> shards;  // all that the folder holds
  std::vector<SkippedClip> skipped;
  std::filesystem::path skipped_list;  // where those stand; empty without any
  int64_t clips = 0;                   // in the list
  int64_t records = 0;                 // in all shards
  int64_t records_found = 0;           // of these, there already
  int64_t bytes = 0;
  int64_t end_clip = 0;  // the clip after the last one looked at, where there are no buckets
  Shape latents;         // of the last record; no axes when none was made now
  Shape text;
  Shape condition;  // no axes where records have none
  Shape image;
  Seconds seconds;
  bool stopped = false;
};

/// Throws an Error when the autoencoder cannot take clips of this size.
void check_sizes(const data::ClipFormat& format, const encoders::Autoencoder& autoencoder);

/// Encodes clips and writes their records, shard by shard: `file_00-64.tfrec`, then
/// `file_01-128.tfrec`, the second number being how many records a reader has seen at its end, or
/// at most, where shards end with their bucket.
///
/// Whenever the process ends, the complete shards stay, and the next call with the same options
/// makes the others; together they are the bytes that one call would have written. A clip that
/// cannot be used is reported and left out.
///
/// Throws an Error when sizes do not fit the autoencoder, when no clip can be used, when there are
/// fewer good clips than max_records, and for what ShardFolder refuses.
Prepared prepare_records(const Options& options, const Encoders& models, const Hooks& hooks = {});

}  // namespace kinema::preparation
