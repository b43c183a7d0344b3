#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

namespace kinema::data {

/// A size that clips are brought to. All samples of a batch are of one bucket.
struct Bucket {
  int64_t frames = 0;
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const Bucket&) const = default;
};

/// `81x480x832`.
std::string to_string(const Bucket& bucket);

/// The bucket of a clip: of those whose aspect ratio is nearest to the clip's (or within 5 % of
/// that), the one with the most frames that the clip has at this stride; of several, the largest
/// that needs no enlarging, else the smallest. Throws an Error that says how many frames are
/// missing when the clip is too short for all of these.
size_t choose_bucket(std::span<const Bucket> buckets, const ClipSize& clip, int64_t frame_stride);

/// Clips and their buckets; without buckets, all clips are brought to one size.
struct ClipBuckets {
  std::vector<Bucket> buckets;
  std::vector<int64_t> bucket_of;  // by clip; -1: it has none

  bool empty() const { return buckets.empty(); }
  /// The format with the size of the clip's bucket.
  ClipFormat format(int64_t clip, const ClipFormat& format) const;
};

/// The format with the size of the bucket.
ClipFormat sized(const ClipFormat& format, const Bucket& bucket);

/// Chooses the bucket of each of the first `clips` clips at the frames that `format` takes,
/// measured on several threads by `measure`, which ClipSet has. A clip that cannot be measured or
/// is too short has none, after `on_problem` was told why (one call at a time; it may throw).
ClipBuckets bucket_clips(int64_t clips, std::vector<Bucket> buckets, const ClipFormat& format,
                         const std::function<ClipSize(int64_t)>& measure, int threads,
                         const std::function<void(int64_t, const std::string&)>& on_problem);

/// An endless order of samples of several groups (buckets, or records of one shape) in which every
/// `batch` samples, counted from 0, are of one group: a pure function of seed and position.
///
/// Each group's samples come round in their own shuffled order, epoch after epoch, and an epoch has
/// as many batches of a group as its samples fill, what is over counting for the next one. So all
/// samples are seen equally often, in a group smaller than a batch too, and none is left out.
class GroupedOrder {
 public:
  /// `groups` holds each group's samples by number, none of them empty.
  GroupedOrder(std::vector<std::vector<int64_t>> groups, int64_t batch, uint64_t seed,
               bool shuffle);

  struct Place {
    size_t group = 0;
    int64_t index = 0;  // into the group
  };
  Place at(int64_t position) const;
  int64_t size() const { return size_; }
  const std::vector<std::vector<int64_t>>& groups() const { return groups_; }

 private:
  int64_t batches_before(int64_t epoch, size_t group) const;
  int64_t batches_before(int64_t epoch) const;

  std::vector<std::vector<int64_t>> groups_;
  int64_t batch_;
  uint64_t seed_;
  bool shuffle_;
  int64_t size_ = 0;
};

}  // namespace kinema::data
