#include "kinema/data/auto_buckets.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kinema/core/error.h"

namespace kinema::data {
namespace {

int64_t rounded_down(int64_t side, int64_t step) { return side / step * step; }

double ratio(int64_t width, int64_t height) {
  return static_cast<double>(width) / static_cast<double>(height);
}

}  // namespace

void AutoBuckets::check_values() const {
  check(step > 0 && min_side > 0 && area > 0,
        "[buckets] area {}, step {} and shortest side {} must be positive", area, step, min_side);
  check(min_side <= max_side, "[buckets] the shortest side {} exceeds the longest, {}", min_side,
        max_side);
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(area)));
  check(side >= step, "[buckets] an area of {} pixels holds no square of multiples of {}", area,
        step);
}

std::vector<Bucket> auto_buckets(const AutoBuckets& options, int64_t frames) {
  options.check_values();
  std::vector<Bucket> out;
  const auto add = [&](int64_t height, int64_t width) {
    const Bucket bucket{frames, height, width};
    if (std::ranges::find(out, bucket) == out.end()) {
      out.push_back(bucket);
    }
  };
  const int64_t square = rounded_down(
      static_cast<int64_t>(std::sqrt(static_cast<double>(options.area))), options.step);
  add(square, square);
  const int64_t first =
      std::max(rounded_down(options.min_side + options.step - 1, options.step), options.step);
  for (int64_t side = first; side <= options.max_side; side += options.step) {
    const int64_t other = std::min(rounded_down(options.area / side, options.step),
                                   rounded_down(options.max_side, options.step));
    if (other >= options.min_side && other > 0) {
      add(other, side);
      add(side, other);
    }
  }
  std::ranges::sort(out, {},
                    [](const Bucket& each) { return std::tuple(each.height, each.width); });
  return out;
}

Bucket auto_bucket(const AutoBuckets& options, const std::vector<Bucket>& all,
                   const ClipSize& clip) {
  check(clip.height > 0 && clip.width > 0, "[buckets] no bucket for a clip of {}x{}", clip.height,
        clip.width);
  if (!options.upscale && clip.height * clip.width <= options.area) {
    const int64_t height = rounded_down(clip.height, options.step);
    const int64_t width = rounded_down(clip.width, options.step);
    check(height > 0 && width > 0,
          "[buckets] a clip of {}x{} (height x width) is below bucket_step {}, and bucket_upscale "
          "is false",
          clip.height, clip.width, options.step);
    return {all.front().frames, height, width};
  }
  const double own = ratio(clip.width, clip.height);
  return *std::ranges::min_element(
      all, {}, [&](const Bucket& each) { return std::abs(ratio(each.width, each.height) - own); });
}

}  // namespace kinema::data
