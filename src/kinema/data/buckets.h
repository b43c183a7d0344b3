#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

namespace kinema::data {

/// A size (frames x height x width) to which clips are resized. All samples of a batch have the
/// same bucket.
struct Bucket {
  int64_t frames = 0;
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const Bucket&) const = default;
};

/// `81x480x832`.
std::string to_string(const Bucket& bucket);

/// The bucket of a clip. Of the buckets whose aspect ratio is nearest to the clip's (or within 5 %
/// of that), it is the one with the most frames that the clip has at this stride; of several, the
/// largest that needs no enlarging, else the smallest. If the clip is too short for all of these,
/// throws an Error with the number of missing frames.
size_t choose_bucket(std::span<const Bucket> buckets, const ClipSize& clip, int64_t frame_stride);

/// Clips and their buckets; without buckets, all clips get one size.
struct ClipBuckets {
  std::vector<Bucket> buckets;
  std::vector<int64_t> bucket_of;  // by clip; -1: none

  bool empty() const { return buckets.empty(); }
  /// `format` with the size of the clip's bucket.
  ClipFormat format(int64_t clip, const ClipFormat& format) const;
};

/// `format` with the size of the bucket.
ClipFormat sized(const ClipFormat& format, const Bucket& bucket);

/// Chooses the bucket of each of the first `clips` clips for the frames of `format`, with `measure`
/// (a function of ClipSet) on several threads. A clip that cannot be measured or is too short gets
/// none, and `on_problem` receives the reason (one call at a time; it may throw).
ClipBuckets bucket_clips(int64_t clips, std::vector<Bucket> buckets, const ClipFormat& format,
                         const std::function<ClipSize(int64_t)>& measure, int threads,
                         const std::function<void(int64_t, const std::string&)>& on_problem);

/// An endless order of samples of several groups (buckets, or records of one shape) in which every
/// `batch` samples, counted from 0, are of one group: a pure function of seed and position.
///
/// Each group's samples are shuffled again in each epoch. An epoch has as many complete batches of
/// a group as its samples fill; the rest moves to the next epoch. So all samples, also those of a
/// group smaller than a batch, are used equally often.
class GroupedOrder {
 public:
  /// `groups` has each group's samples by number; no group is empty.
  GroupedOrder(std::vector<std::vector<int64_t>> groups, int64_t batch, uint64_t seed,
               bool shuffle);

  struct Place {
    size_t group = 0;
    int64_t index = 0;  // within the group
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
