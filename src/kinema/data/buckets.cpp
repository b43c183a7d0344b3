#include "kinema/data/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/source.h"

namespace kinema::data {

std::string to_string(const Bucket& bucket) {
  return fmt::format("{}x{}x{}", bucket.frames, bucket.height, bucket.width);
}

size_t choose_bucket(std::span<const Bucket> buckets, const ClipSize& clip, int64_t frame_stride) {
  check(
      !buckets.empty() && clip.frames > 0 && clip.height > 0 && clip.width > 0 && frame_stride > 0,
      "[buckets] no bucket for a clip of {} frames of {}x{}", clip.frames, clip.height, clip.width);
  const double ratio = static_cast<double>(clip.width) / static_cast<double>(clip.height);
  const auto distance = [&](const Bucket& bucket) {
    const double own = static_cast<double>(bucket.width) / static_cast<double>(bucket.height);
    return std::abs(std::log(own / ratio));
  };
  const auto span = [&](const Bucket& bucket) { return (bucket.frames - 1) * frame_stride + 1; };
  const double nearest = distance(*std::ranges::min_element(buckets, {}, distance));
  // 480x832 and 720x1280 are meant as one aspect ratio, although they differ after rounding to 16.
  constexpr double kSame = 0.05;
  const int64_t area = clip.height * clip.width;
  // Larger is better: frames, then no enlarging, then a size near the clip's.
  const auto rank = [&](const Bucket& bucket) {
    const int64_t own = bucket.height * bucket.width;
    return std::tuple(bucket.frames, own <= area, own <= area ? own : -own);
  };
  const Bucket* best = nullptr;
  int64_t shortest = 0;
  for (const Bucket& bucket : buckets) {
    if (distance(bucket) > nearest + kSame) {
      continue;
    }
    shortest = shortest == 0 ? span(bucket) : std::min(shortest, span(bucket));
    if (span(bucket) <= clip.frames && (best == nullptr || rank(bucket) > rank(*best))) {
      best = &bucket;
    }
  }
  check(best != nullptr,
        "[buckets] a clip of {} frames of {}x{} (height x width): the buckets of its aspect ratio "
        "need "
        "{} frames with frame_stride {}",
        clip.frames, clip.height, clip.width, shortest, frame_stride);
  return static_cast<size_t>(best - buckets.data());
}

ClipFormat sized(const ClipFormat& format, const Bucket& bucket) {
  ClipFormat out = format;
  out.height = bucket.height;
  out.width = bucket.width;
  out.num_frames = bucket.frames;
  return out;
}

ClipFormat ClipBuckets::format(int64_t clip, const ClipFormat& format) const {
  if (empty()) {
    return format;
  }
  const int64_t number = bucket_of.at(static_cast<size_t>(clip));
  check(number >= 0, "[buckets] clip {} has no bucket", clip);
  return sized(format, buckets[static_cast<size_t>(number)]);
}

ClipBuckets bucket_clips(int64_t clips, std::vector<Bucket> buckets, const ClipFormat& format,
                         const std::function<ClipSize(int64_t)>& measure, int threads,
                         const std::function<void(int64_t, const std::string&)>& on_problem) {
  ClipBuckets out{std::move(buckets), std::vector<int64_t>(static_cast<size_t>(clips), -1)};
  std::vector<std::string> problems(static_cast<size_t>(clips));
  for_each_in_parallel(problems.size(), threads, [&](size_t clip) {
    try {
      ClipSize size = measure(static_cast<int64_t>(clip));
      size.frames = frames_in(size, format);
      const int64_t stride = format.fps > 0 ? 1 : format.frame_stride;
      out.bucket_of[clip] = static_cast<int64_t>(choose_bucket(out.buckets, size, stride));
    } catch (const Error& bad) {
      problems[clip] = bad.what();
    }
  });
  for (int64_t clip = 0; clip < clips; ++clip) {  // in order, regardless of the threads' speed
    if (const std::string& why = problems[static_cast<size_t>(clip)]; !why.empty()) {
      on_problem(clip, why);
    }
  }
  return out;
}

GroupedOrder::GroupedOrder(std::vector<std::vector<int64_t>> groups, int64_t batch, uint64_t seed,
                           bool shuffle)
    : groups_(std::move(groups)), batch_(batch), seed_(seed), shuffle_(shuffle) {
  check(batch > 0 && !groups_.empty(), "[buckets] {} groups in batches of {}", groups_.size(),
        batch);
  for (const std::vector<int64_t>& group : groups_) {
    check(!group.empty(), "[buckets] a group has no samples");
    size_ += static_cast<int64_t>(group.size());
  }
}

int64_t GroupedOrder::batches_before(int64_t epoch, size_t group) const {
  const auto samples = static_cast<__int128>(groups_[group].size());
  return static_cast<int64_t>(samples * epoch / batch_);
}

int64_t GroupedOrder::batches_before(int64_t epoch) const {
  int64_t sum = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    sum += batches_before(epoch, group);
  }
  return sum;
}

GroupedOrder::Place GroupedOrder::at(int64_t position) const {
  check(position >= 0 && position < int64_t{1} << 62, "[buckets] position {}", position);
  const int64_t number = position / batch_;
  // The epoch of this batch: the last one that starts at or before it. Up to a batch of each group
  // is carried over, so the bound is that much larger.
  int64_t low = 0;
  auto high = static_cast<int64_t>(
      (static_cast<__int128>(number) + static_cast<int64_t>(groups_.size()) + 1) * batch_ / size_ +
      2);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (batches_before(middle) <= number ? low : high) = middle;
  }
  const int64_t epoch = low;
  const int64_t first = batches_before(epoch);
  const int64_t batches = batches_before(epoch + 1) - first;
  int64_t place = number - first;
  if (shuffle_) {
    place = shuffled_index(seed_ ^ 0x6275636b65747321U, epoch * batches + place, batches);
  }
  size_t group = 0;
  for (;; ++group) {
    const int64_t own = batches_before(epoch + 1, group) - batches_before(epoch, group);
    if (place < own) {
      break;
    }
    place -= own;
  }
  const int64_t in_group = (batches_before(epoch, group) + place) * batch_ + position % batch_;
  const auto size = static_cast<int64_t>(groups_[group].size());
  return {group, shuffle_ ? shuffled_index(seed_ + group, in_group, size) : in_group % size};
}

}  // namespace kinema::data
