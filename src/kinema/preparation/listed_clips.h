#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/training_mask.h"
#include "kinema/preparation/content_index.h"

namespace kinema::preparation {

/// Clips in the order of their records, from first() to end(): the set's order, or with buckets,
/// first those without a bucket, then bucket by bucket. So readers that group records by shape find
/// the buckets in the same order as readers of the clips.
class ListedClips {
 public:
  struct Options {
    int64_t first_clip = 0;
    int64_t max_clips = -1;  // of the set, including those before first_clip; negative: all
    data::ClipFormat format;
    std::vector<data::Bucket> buckets;            // empty: all have the format's size
    bool alpha_mask = false;                      // of the run
    std::vector<data::MaskKind> mask_kinds = {};  // as EncodeOnceOptions'
    uint64_t mask_seed = 0;
    bool own_sizes = false;  // data sets have their own sizes (ClipSet::sets)
    int threads = 2;         // for measuring clips for their buckets, and hashing them
  };

  /// `name` is the set's name in messages. Throws an Error if no clip is left.
  ListedClips(std::shared_ptr<const data::ClipSet> clips, const std::string& name,
              const Options& options);

  int64_t first() const { return options_.first_clip; }
  int64_t end() const { return end_; }
  /// The clip's path in its folder, or its row in its file.
  std::string where(int64_t place) const { return clips_->where(clip(place)); }
  std::string caption(int64_t place) const { return clips_->caption(clip(place)); }
  data::ClipFormat format(int64_t place) const;
  /// f32 [6] (data/picture_sizes.h). Throws an Error for a clip that cannot be read.
  HostArray size_ids(int64_t place) const;
  /// The clip's weights in the loss for latents [c, f, h, w], f32 [1, f, h, w]; without bytes if no
  /// clip has any (data/loss_weights.h).
  HostArray loss_weights(int64_t place, const Dims& latents) const;
  /// The clip's control files; throws the Errors of data::ClipSet::read_control.
  data::ClipControl control(int64_t place) const;
  bool has_controls() const { return clips_->has_controls(); }
  /// The middle of the clip. Throws an Error for a clip that cannot be used.
  HostArray read(int64_t place) const;
  /// True for the last place of a bucket.
  bool ends_bucket(int64_t place) const;
  /// The number of shards of `records_per_shard` records for all places, each of one bucket, if at
  /// most `most_records` are made.
  int64_t shards(int64_t records_per_shard, int64_t most_records) const;
  /// Pixels of the largest bucket's clips divided by those of this place's.
  double largest_over(int64_t place) const;
  /// Number, names and captions of the clips.
  std::string fingerprint() const;
  /// A hash of the bytes of all clips; reads those that are not in the index.
  std::string contents(ContentIndex& index) const;

 private:
  int64_t clip(int64_t place) const;
  int64_t bucket(int64_t place) const;

  std::shared_ptr<const data::ClipSet> clips_;
  Options options_;
  int64_t end_ = 0;
  data::ClipBuckets buckets_;
  std::vector<int64_t> order_;         // with buckets: the clip at each place
  std::vector<std::string> problems_;  // with buckets: of each clip without one
};

}  // namespace kinema::preparation
