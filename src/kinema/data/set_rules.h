#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/data/auto_buckets.h"
#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"

/// Several data sets in one run, each with sizes and rules of its own.
namespace kinema::data {

/// The sizes of samples: a list, or chosen by the clips' aspect ratios.
struct SampleSizes {
  std::vector<Bucket> buckets;
  std::optional<AutoBuckets> automatic;
  int64_t frames = 0;  // of sizes by aspect ratio; 0: the run's

  bool empty() const { return buckets.empty() && !automatic; }
};

/// The keys of a data set's sizes; missing ones are the run's.
struct SizeChanges {
  std::optional<int64_t> height, width, frames;
  std::vector<Bucket> buckets = {};
  std::optional<bool> automatic;  // sizes by aspect ratio
  std::optional<int64_t> area, step, min_side, max_side;
  std::optional<bool> upscale;
};

/// The sizes of a data set; empty if nothing differs from the run. A size without buckets is that
/// of all clips, or with buckets by aspect ratio their area. `run` and `format` are the run's
/// sizes, and `automatic` its settings for sizes by aspect ratio (area 0: the format's). Throws an
/// Error for impossible sizes, which starts with `where`.
SampleSizes own_sizes(const SizeChanges& changes, const SampleSizes& run,
                      const AutoBuckets& automatic, const ClipFormat& format,
                      const std::string& where);

/// What one data set of several has instead of the run's.
struct SetRules {
  std::string name;               // for messages
  double weight = 0;              // relative to the other sets; 0 in all sets: by their clips
  SampleSizes sizes = {};         // empty: the run's
  std::optional<bool> flip = {};  // mirror some samples
  std::optional<bool> color_change = {};  // change the colours of some samples
  std::optional<bool> alpha_mask = {};    // alpha channels are masks
  double loss_weight = 1;                 // of all samples
  /// Regularization pictures: without weights, half of the samples are of such sets.
  bool regularization = false;
};

/// True if some of these sizes are of one frame: pictures are clips then.
bool takes_pictures(const SampleSizes& sizes, const ClipFormat& format);

/// True if a set has sizes of its own.
bool have_own_sizes(const std::vector<SetRules>& sets);

/// The sizes that samples of `sets` may have. `run`: the sizes of sets without their own; `format`
/// if these are empty.
std::vector<Bucket> possible_sizes(const std::vector<SetRules>& sets, const SampleSizes& run,
                                   const ClipFormat& format);

/// Chooses the bucket of each of the first `count` clips, by the sizes of its set (or `run`, or
/// `format`), with `measure` on several threads. The buckets are those that clips have, in the
/// order of the clips. A clip that cannot be measured or is too short gets none, and `on_problem`
/// receives the reason (one call at a time).
ClipBuckets bucket_sets(const ClipSet& clips, int64_t count, const SampleSizes& run,
                        const ClipFormat& format, const std::function<ClipSize(int64_t)>& measure,
                        int threads,
                        const std::function<void(int64_t, const std::string&)>& on_problem);

}  // namespace kinema::data
