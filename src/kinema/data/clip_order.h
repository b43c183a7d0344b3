#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/mixture.h"

namespace kinema::data {

/// Which clip each sample of an endless order is: a pure function of seed and position. Clips with
/// problems are left out; with buckets, every `batch` samples have one bucket; sets with weights
/// take turns (Mixture), by batches if there are buckets. Without weights, regularization pictures
/// take turns with all other clips.
class ClipOrder {
 public:
  struct Options {
    int64_t clips = 0;  // the first clips of the set
    const ClipBuckets& buckets;
    const std::vector<std::string>& problems;  // by clip; empty: usable
    int64_t batch = 1;
    bool shuffle = true;
    uint64_t seed = 0;
  };
  /// Throws an Error if no clip, or no clip of a weighted set, can be used.
  ClipOrder(const ClipSet& clips, const Options& options);

  /// The clips among which a sample is chosen, and its place among them.
  struct Place {
    std::span<const int64_t> clips;
    int64_t index = 0;
  };
  Place at(int64_t position) const;
  /// Usable clips.
  int64_t size() const { return size_; }
  /// With buckets, the clips of each bucket; with weights of one set that has it. Else nothing.
  std::vector<std::span<const int64_t>> of_buckets() const;

 private:
  /// The clips of a set, or of all sets without weights.
  struct Group {
    std::vector<int64_t> clips;
    std::optional<GroupedOrder> by_bucket;  // instead of `clips`
    std::vector<size_t> buckets;            // of the groups of by_bucket
    uint64_t seed = 0;
  };
  void add(std::vector<int64_t> clips, const Options& options);

  int64_t batch_;
  bool shuffle_;
  std::vector<Group> groups_;
  std::optional<Mixture> mixture_;
  int64_t size_ = 0;
};

}  // namespace kinema::data
