#include "kinema/preparation/listed_clips.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/threefry.h"
#include "kinema/data/loss_weights.h"
#include "kinema/data/picture_sizes.h"
#include "kinema/data/set_rules.h"
#include "kinema/io/hash.h"

namespace kinema::preparation {
namespace {

double volume(int64_t frames, int64_t height, int64_t width) {
  return static_cast<double>(frames) * static_cast<double>(height) * static_cast<double>(width);
}

}  // namespace

ListedClips::ListedClips(std::shared_ptr<const data::ClipSet> clips, const std::string& name,
                         const Options& options)
    : clips_(std::move(clips)), options_(options), end_(clips_->size()) {
  if (options.max_clips >= 0) {
    end_ = std::min(end_, options.max_clips);
  }
  check(first() >= 0 && first() < end_, "[prepare] no clips of {} are left after the first {}",
        name, first());
  const bool own_sizes = options.own_sizes && data::have_own_sizes(clips_->sets());
  if (options.buckets.empty() && !own_sizes) {
    return;
  }
  problems_.resize(static_cast<size_t>(end_));
  const auto measure = [this](int64_t clip) { return clips_->measure(clip); };
  const auto on_problem = [this](int64_t clip, const std::string& why) {
    problems_[static_cast<size_t>(clip)] = why;
  };
  buckets_ = own_sizes
                 ? data::bucket_sets(*clips_, end_, {.buckets = options.buckets, .automatic = {}},
                                     options.format, measure, options.threads, on_problem)
                 : data::bucket_clips(end_, options.buckets, options.format, measure,
                                      options.threads, on_problem);
  order_.resize(static_cast<size_t>(end_ - first()));
  std::iota(order_.begin(), order_.end(), first());
  std::ranges::stable_sort(
      order_, {}, [this](int64_t clip) { return buckets_.bucket_of[static_cast<size_t>(clip)]; });
}

int64_t ListedClips::clip(int64_t place) const {
  return order_.empty() ? place : order_.at(static_cast<size_t>(place - first()));
}

int64_t ListedClips::bucket(int64_t place) const {
  return buckets_.empty() ? 0 : buckets_.bucket_of[static_cast<size_t>(clip(place))];
}

data::ClipFormat ListedClips::format(int64_t place) const {
  return buckets_.format(clip(place), options_.format);
}

HostArray ListedClips::size_ids(int64_t place) const {
  return data::size_ids(clips_->measure(clip(place)), format(place));
}

HostArray ListedClips::loss_weights(int64_t place, const Dims& latents) const {
  if (!data::have_loss_weights(*clips_, options_.alpha_mask)) {
    return {};
  }
  data::Sample sample;
  sample.loss_weights = data::mask_of_latents(*clips_, clip(place), format(place), {},
                                              /*flipped=*/false, options_.alpha_mask, latents);
  data::apply_set_weight(*clips_, clip(place), sample);
  return std::move(sample.loss_weights);
}

data::ClipControl ListedClips::control(int64_t place) const {
  data::ClipControl out = clips_->read_control(clip(place), format(place), {});
  data::add_training_mask(options_.mask_kinds, format(place),
                          random_key(options_.mask_seed, "mask of " + clips_->where(clip(place))),
                          out);
  return out;
}

HostArray ListedClips::read(int64_t place) const {
  if (!problems_.empty()) {
    const std::string& problem = problems_[static_cast<size_t>(clip(place))];
    check(problem.empty(), "{}", problem);
  }
  clips_->caption(clip(place));  // throws if there is none
  return clips_->read(clip(place), format(place), {});
}

bool ListedClips::ends_bucket(int64_t place) const {
  return place + 1 == end_ || bucket(place + 1) != bucket(place);
}

int64_t ListedClips::shards(int64_t records_per_shard, int64_t most_records) const {
  int64_t sum = 0;
  int64_t in_bucket = 0;
  for (int64_t place = first(); place < end_; ++place) {
    in_bucket += bucket(place) >= 0 ? 1 : 0;
    if (ends_bucket(place)) {
      sum += (std::min(in_bucket, most_records) + records_per_shard - 1) / records_per_shard;
      in_bucket = 0;
    }
  }
  return sum;
}

double ListedClips::largest_over(int64_t place) const {
  const data::ClipFormat own = format(place);
  const double own_volume = volume(own.num_frames, own.height, own.width);
  double largest = own_volume;
  for (const data::Bucket& each : buckets_.buckets) {
    largest = std::max(largest, volume(each.frames, each.height, each.width));
  }
  return largest / own_volume;
}

std::string ListedClips::fingerprint() const {
  io::Hasher hasher;
  const auto add = [&](const std::string& text) {
    hasher.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  for (int64_t clip = 0; clip < end_; ++clip) {
    add(clips_->where(clip));
    try {
      add(clips_->caption(clip));
    } catch (const Error& error) {
      add("");  // it will be skipped
    }
  }
  return fmt::format("{} with names and captions {}", end_, hasher.hex().substr(0, 12));
}

std::string ListedClips::contents(ContentIndex& index) const {
  std::vector<std::string> hashes(static_cast<size_t>(end_));
  for_each_in_parallel(hashes.size(), options_.threads, [&](size_t i) {
    try {
      hashes[i] = index.hash_of(*clips_, static_cast<int64_t>(i));
    } catch (const Error&) {
      // It will be skipped.
    }
  });
  io::Hasher hasher;
  for (const std::string& hash : hashes) {
    hasher.update(std::as_bytes(std::span(hash.c_str(), hash.size() + 1)));
  }
  return hasher.hex().substr(0, 12);
}

}  // namespace kinema::preparation
