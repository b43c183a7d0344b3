#include "kinema/data/video_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/data/clip_order.h"
#include "kinema/data/color_change.h"
#include "kinema/data/loss_weights.h"
#include "kinema/data/picture_sizes.h"
#include "kinema/data/set_rules.h"

namespace kinema::data {
namespace {

int64_t clips_used(const ClipSet& clips, const VideoOptions& options) {
  const int64_t out =
      options.max_samples < 0 ? clips.size() : std::min(options.max_samples, clips.size());
  check(out > 0, "[data] max_samples is 0: there would be nothing to read");
  return out;
}

class VideoSource : public Source {
 public:
  VideoSource(std::shared_ptr<const ClipSet> clips, const VideoOptions& options, EncodeClip encode,
              FindEncoded find)
      : clips_(std::move(clips)),
        options_(options),
        encode_(std::move(encode)),
        find_(std::move(find)),
        order_(*clips_, {.clips = clips_used(*clips_, options),
                         .buckets = options_.buckets,
                         .problems = options_.problems,
                         .batch = options.batch,
                         .shuffle = options.shuffle,
                         .seed = options.seed}),
        weighs_(have_loss_weights(*clips_, options.alpha_mask)) {
    const ClipFormat& format = options.format;
    check(format.height > 0 && format.width > 0 && format.num_frames > 0 && format.frame_stride > 0,
          "[data] height {}, width {}, num_frames {} and frame_stride {} must be positive",
          format.height, format.width, format.num_frames, format.frame_stride);
  }

  int64_t size() const override { return order_.size(); }

  Sample at(int64_t position) const override {
    const ClipOrder::Place chosen = order_.at(position);
    const auto count = std::ssize(chosen.clips);
    int64_t place = chosen.index;
    for (int64_t i = 0;; ++i) {
      const int64_t index = chosen.clips[static_cast<size_t>(place)];
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
    const std::vector<std::span<const int64_t>> groups = order_.of_buckets();
    if (groups.empty()) {
      return Source::examples();
    }
    std::vector<Sample> out;
    for (const std::span<const int64_t> members : groups) {
      out.push_back(first_of(members));
    }
    return out;
  }

 private:
  /// The sample of the first usable clip.
  Sample first_of(std::span<const int64_t> members) const {
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

  /// What differs from one use of a clip to the next.
  struct Drawn {
    ClipWindow window;
    bool flip = false;
    int64_t variant = 0;  // of the caption
    ColorChange colors;
    std::array<uint32_t, 2> mask_key;
  };

  Sample sample(int64_t index, int64_t position) const {
    RandomStream random(
        random_key(options_.seed, "video augmentation", static_cast<uint64_t>(position)));
    // All are drawn for any settings, so that one setting does not change another's draw.
    const float start = random.uniform();
    const bool flip = random.uniform() < 0.5F && flips(*clips_, index, options_.random_flip);
    const float crop = random.uniform();
    const int64_t variants = clips_->caption_variants(options_.captions);
    const auto drawn = static_cast<double>(random.uniform()) * static_cast<double>(variants);
    const int64_t variant = std::min(static_cast<int64_t>(drawn), variants - 1);
    ColorChange colors = draw_color_change(random);
    if (!changes_colors(*clips_, index, options_.color_change)) {
      colors = {};
    }
    ClipWindow window;
    if (options_.random_start) {
      window.start = start;
    }
    if (!options_.center_crop) {
      window.crop = crop;
    }

    Sample sample = *encoded_clip(
        index, {window, flip, variant, colors,
                random_key(options_.seed, "training mask", static_cast<uint64_t>(position))});
    sample.id = clips_->name(index);
    apply_set_weight(*clips_, index, sample);
    return sample;
  }

  // Shared, because the cache and a sample in progress may both use it.
  std::shared_ptr<const Sample> encoded_clip(int64_t index, const Drawn& drawn) const {
    const auto& [window, flip, variant, colors, mask_key] = drawn;
    const ClipFormat format = options_.buckets.format(index, options_.format);
    if (find_) {
      return std::make_shared<const Sample>(find_(index, format, flip, variant));
    }
    const std::tuple key(index, flip, variant);
    const bool varies = options_.random_start || !options_.center_crop ||
                        !options_.mask_kinds.empty() ||
                        changes_colors(*clips_, index, options_.color_change);
    const bool keep = !varies && options_.cache_bytes > 0;
    if (keep) {
      const std::lock_guard lock(mutex_);
      if (const auto found = cache_.find(key); found != cache_.end()) {
        return found->second;
      }
    }
    Clip given{.number = index};
    given.pixels = clips_->read(index, format, window);
    given.control = clips_->read_control(index, format, window);
    add_training_mask(options_.mask_kinds, format, mask_key, given.control);
    if (flip) {
      given.pixels = flipped(given.pixels);
      given.control = flipped(std::move(given.control));
    }
    given.pixels = with_colors(std::move(given.pixels), colors);
    if (options_.sizes) {
      given.size_ids = size_ids(clips_->measure(index), format, window.crop, flip);
    }
    given.caption = varied_caption(*clips_, index, options_.captions, variant);
    given.id = clips_->name(index);
    Sample made = encode_(given);
    if (weighs_ && !made.latents.bytes.empty()) {
      made.loss_weights = mask_of_latents(*clips_, index, format, window, flip, options_.alpha_mask,
                                          made.latents.shape.dims);
    }
    auto encoded = std::make_shared<const Sample>(std::move(made));
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
  ClipOrder order_;
  bool weighs_;  // samples have loss_weights
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<int64_t, bool, int64_t>, std::shared_ptr<const Sample>> cache_;
  mutable int64_t cached_bytes_ = 0;
  mutable std::mutex skip_mutex_;
  mutable std::set<int64_t> skipped_;
};

}  // namespace

bool flips(const ClipSet& clips, int64_t clip, bool run) {
  const std::vector<SetRules>& sets = clips.sets();
  return sets.empty() ? run : sets.at(clips.set_of(clip)).flip.value_or(run);
}

bool changes_colors(const ClipSet& clips, int64_t clip, bool run) {
  const std::vector<SetRules>& sets = clips.sets();
  return sets.empty() ? run : sets.at(clips.set_of(clip)).color_change.value_or(run);
}

ClipControl flipped(ClipControl control) {
  for (HostArray* each : {&control.frames, &control.mask}) {
    if (!each->bytes.empty()) {
      *each = flipped(*each);
    }
  }
  return control;
}

HostArray flipped(const HostArray& pixels) {
  HostArray out = pixels;
  const auto width = static_cast<size_t>(out.shape.dims.back());
  const auto values = out.as<float>();
  for (size_t row = 0; row < values.size(); row += width) {
    std::reverse(values.begin() + static_cast<int64_t>(row),
                 values.begin() + static_cast<int64_t>(row + width));
  }
  return out;
}

HostArray frame(const HostArray& pixels, int64_t index) {
  const Dims& dims = pixels.shape.dims;
  check(pixels.shape.dtype == DType::F32 && dims.size() == 4 && dims[0] == 3 && index >= 0 &&
            index < dims[1],
        "[data] frame {} of {} is asked for, expected f32 [3, f, h, w]", index,
        to_string(pixels.shape));
  const int64_t plane = dims[2] * dims[3];
  HostArray out(Shape{DType::U8, {dims[2], dims[3], 3}});
  const auto from = pixels.as<float>();
  const auto to = out.as<uint8_t>();
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < plane; ++i) {
      const float level =
          (from[static_cast<size_t>((c * dims[1] + index) * plane + i)] + 1.0F) * 127.5F;
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
  check(
      !options.varies(),
      "[data] random_start, center_crop=false and masks make another clip each time: none is kept");
  return std::make_unique<VideoSource>(std::move(clips), options, EncodeClip(), std::move(find));
}

}  // namespace kinema::data
