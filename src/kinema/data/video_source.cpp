#include "kinema/data/video_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/data/picture_sizes.h"

namespace kinema::data {
namespace {

class VideoSource : public Source {
 public:
  VideoSource(std::shared_ptr<const ClipSet> clips, const VideoOptions& options, EncodeClip encode,
              FindEncoded find)
      : clips_(std::move(clips)),
        options_(options),
        encode_(std::move(encode)),
        find_(std::move(find)),
        size_(options.max_samples < 0 ? clips_->size()
                                      : std::min(options.max_samples, clips_->size())) {
    check(size_ > 0, "[data] max_samples is 0: there would be nothing to read");
    const ClipFormat& format = options.format;
    check(format.height > 0 && format.width > 0 && format.num_frames > 0 && format.frame_stride > 0,
          "[data] height {}, width {}, num_frames {} and frame_stride {} must be positive",
          format.height, format.width, format.num_frames, format.frame_stride);
    if (!options_.buckets.empty()) {
      group();
    } else {
      leave_out_problems();
    }
  }

  int64_t size() const override { return size_; }

  Sample at(int64_t position) const override {
    const std::vector<int64_t>* members = usable_.empty() ? nullptr : &usable_;
    int64_t place = 0;
    int64_t count = size_;
    if (order_) {
      const GroupedOrder::Place chosen = order_->at(position);
      members = &order_->groups()[chosen.group];
      place = chosen.index;
      count = static_cast<int64_t>(members->size());
    } else {
      place = options_.shuffle ? shuffled_index(options_.seed, position, size_) : position % size_;
    }
    for (int64_t i = 0;; ++i) {
      const int64_t index = members == nullptr ? place : (*members)[static_cast<size_t>(place)];
      try {
        return sample(index, position);
      } catch (const Error& error) {
        if (options_.bad_clip == BadClip::Fail || i == count) {
          throw;
        }
        report_skip(index, error.what());
      }
      // Not the next clip, which would then be used more often than others.
      const auto key =
          random_key(options_.seed, "in place of a bad clip", static_cast<uint64_t>(position));
      place = shuffled_index(uint64_t{key[0]} << 32 | key[1], i, count);
    }
  }

  std::vector<Sample> examples() const override {
    if (!order_) {
      return Source::examples();
    }
    std::vector<Sample> out;
    for (const std::vector<int64_t>& members : order_->groups()) {
      out.push_back(first_of(members));
    }
    return out;
  }

 private:
  /// Groups the clips by bucket.
  void group() {
    const std::vector<int64_t>& bucket_of = options_.buckets.bucket_of;
    check(static_cast<int64_t>(bucket_of.size()) >= size_, "[data] {} clips have a bucket, of {}",
          bucket_of.size(), size_);
    std::vector<std::vector<int64_t>> groups(options_.buckets.buckets.size());
    for (int64_t clip = 0; clip < size_; ++clip) {
      if (const int64_t bucket = bucket_of[static_cast<size_t>(clip)];
          bucket >= 0 && !has_problem(clip)) {
        groups[static_cast<size_t>(bucket)].push_back(clip);
      }
    }
    std::erase_if(groups, [](const auto& members) { return members.empty(); });
    check(!groups.empty(), "[data] none of the {} clips fits a bucket", size_);
    order_.emplace(std::move(groups), options_.batch, options_.seed, options_.shuffle);
    size_ = order_->size();
  }

  bool has_problem(int64_t clip) const {
    const auto i = static_cast<size_t>(clip);
    return i < options_.problems.size() && !options_.problems[i].empty();
  }

  void leave_out_problems() {
    if (std::ranges::all_of(options_.problems, &std::string::empty)) {
      return;
    }
    for (int64_t clip = 0; clip < size_; ++clip) {
      if (!has_problem(clip)) {
        usable_.push_back(clip);
      }
    }
    check(!usable_.empty(), "[data] none of the {} clips can be used", size_);
    size_ = static_cast<int64_t>(usable_.size());
  }

  /// The sample of the first usable clip.
  Sample first_of(const std::vector<int64_t>& members) const {
    for (size_t i = 0;; ++i) {
      try {
        return sample(members[i], 0);
      } catch (const Error&) {
        if (options_.bad_clip == BadClip::Fail || i + 1 == members.size()) {
          throw;
        }
      }
    }
  }

  Sample sample(int64_t index, int64_t position) const {
    RandomStream random(
        random_key(options_.seed, "video augmentation", static_cast<uint64_t>(position)));
    // All are drawn for any settings, so that one setting does not change another's draw.
    const float start = random.uniform();
    const bool flip = random.uniform() < 0.5F && options_.random_flip;
    const float crop = random.uniform();
    const int64_t variants = clips_->caption_variants(options_.captions);
    const auto drawn = static_cast<double>(random.uniform()) * static_cast<double>(variants);
    const int64_t variant = std::min(static_cast<int64_t>(drawn), variants - 1);
    ClipWindow window;
    if (options_.random_start) {
      window.start = start;
    }
    if (!options_.center_crop) {
      window.crop = crop;
    }

    Sample sample = *encoded_clip(index, window, flip, variant);
    sample.id = clips_->name(index);
    return sample;
  }

  // Shared, because the cache and a sample in progress may both use it.
  std::shared_ptr<const Sample> encoded_clip(int64_t index, const ClipWindow& window, bool flip,
                                             int64_t variant) const {
    const ClipFormat format = options_.buckets.format(index, options_.format);
    if (find_) {
      return std::make_shared<const Sample>(find_(index, format, flip, variant));
    }
    const std::tuple key(index, flip, variant);
    const bool keep = !options_.varies() && options_.cache_bytes > 0;
    if (keep) {
      const std::lock_guard lock(mutex_);
      if (const auto found = cache_.find(key); found != cache_.end()) {
        return found->second;
      }
    }
    Clip given{.number = index};
    given.pixels = clips_->read(index, format, window);
    if (flip) {
      given.pixels = flipped(given.pixels);
    }
    if (options_.sizes) {
      given.size_ids = size_ids(clips_->measure(index), format, window.crop, flip);
    }
    given.caption = varied_caption(*clips_, index, options_.captions, variant);
    given.id = clips_->name(index);
    auto encoded = std::make_shared<const Sample>(encode_(given));
    if (keep) {
      const int64_t bytes = bytes_of(*encoded);
      const std::lock_guard lock(mutex_);
      if (cached_bytes_ + bytes <= options_.cache_bytes && cache_.emplace(key, encoded).second) {
        cached_bytes_ += bytes;
      }
    }
    return encoded;
  }

  void report_skip(int64_t index, const std::string& reason) const {
    const std::lock_guard lock(skip_mutex_);
    if (skipped_.insert(index).second && options_.on_skip) {
      options_.on_skip(index, reason);
    }
  }

  std::shared_ptr<const ClipSet> clips_;
  VideoOptions options_;
  EncodeClip encode_;
  FindEncoded find_;
  int64_t size_;
  std::vector<int64_t> usable_;        // indices of usable clips; empty: all
  std::optional<GroupedOrder> order_;  // if there are buckets
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int64_t, bool, int64_t>, std::shared_ptr<const Sample>> cache_;
  mutable int64_t cached_bytes_ = 0;
  mutable std::mutex skip_mutex_;
  mutable std::set<int64_t> skipped_;
};

}  // namespace

HostArray flipped(const HostArray& pixels) {
  HostArray out = pixels;
  const auto width = static_cast<size_t>(out.shape.dims[3]);
  const auto values = out.as<float>();
  for (size_t row = 0; row < values.size(); row += width) {
    std::reverse(values.begin() + static_cast<int64_t>(row),
                 values.begin() + static_cast<int64_t>(row + width));
  }
  return out;
}

HostArray first_frame(const HostArray& pixels) {
  const Dims& dims = pixels.shape.dims;
  check(pixels.shape.dtype == DType::F32 && dims.size() == 4 && dims[0] == 3 && dims[1] > 0,
        "[data] first_frame was given {}, f32 [3, f, h, w] was expected", to_string(pixels.shape));
  const int64_t plane = dims[2] * dims[3];
  HostArray out(Shape{DType::U8, {dims[2], dims[3], 3}});
  const auto from = pixels.as<float>();
  const auto to = out.as<uint8_t>();
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < plane; ++i) {
      const float level = (from[static_cast<size_t>(c * dims[1] * plane + i)] + 1.0F) * 127.5F;
      to[static_cast<size_t>(i * 3 + c)] =
          static_cast<uint8_t>(std::lround(std::clamp(level, 0.0F, 255.0F)));
    }
  }
  return out;
}

std::unique_ptr<Source> video_source(std::shared_ptr<const ClipSet> clips,
                                     const VideoOptions& options, EncodeClip encode) {
  return std::make_unique<VideoSource>(std::move(clips), options, std::move(encode), FindEncoded());
}

std::unique_ptr<Source> encoded_source(std::shared_ptr<const ClipSet> clips,
                                       const VideoOptions& options, FindEncoded find) {
  check(!options.varies(),
        "[data] random_start and center_crop=false make another clip each time: none is kept");
  return std::make_unique<VideoSource>(std::move(clips), options, EncodeClip(), std::move(find));
}

}  // namespace kinema::data
