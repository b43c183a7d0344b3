#include "kinema/data/loss_weights.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/data/set_rules.h"
#include "kinema/media/image.h"

namespace kinema::data {

bool have_loss_weights(const ClipSet& clips, bool alpha) {
  const std::vector<SetRules>& sets = clips.sets();
  const auto weighs = [&](const SetRules& set) {
    return set.alpha_mask.value_or(alpha) || set.loss_weight != 1.0;
  };
  return clips.has_masks() || (sets.empty() ? alpha : std::ranges::any_of(sets, weighs));
}

bool uses_alpha_mask(const ClipSet& clips, int64_t clip, bool run) {
  const std::vector<SetRules>& sets = clips.sets();
  return sets.empty() ? run : sets.at(clips.set_of(clip)).alpha_mask.value_or(run);
}

HostArray mask_of_latents(const ClipSet& clips, int64_t clip, const ClipFormat& format,
                          const ClipWindow& window, bool flipped, bool alpha, const Dims& latents) {
  const int64_t frames = latents.at(1);
  const int64_t height = latents.at(2);
  const int64_t width = latents.at(3);
  HostArray out(Shape{DType::F32, {1, frames, height, width}});
  const auto weights = out.as<float>();
  const HostArray mask = clips.read_mask(clip, format, window, uses_alpha_mask(clips, clip, alpha));
  if (mask.bytes.empty()) {
    std::ranges::fill(weights, 1.0F);
    return out;
  }
  check(format.height % height == 0 && format.width % width == 0,
        "[data] a mask of {}x{} pixels does not divide into latents of {}x{}", format.height,
        format.width, height, width);
  const int64_t tall = format.height / height;
  const int64_t wide = format.width / width;
  const auto pixels = mask.as<float>();
  for (int64_t y = 0; y < format.height; ++y) {
    for (int64_t x = 0; x < format.width; ++x) {
      const int64_t from = flipped ? format.width - 1 - x : x;
      weights[static_cast<size_t>(y / tall * width + x / wide)] +=
          pixels[static_cast<size_t>(y * format.width + from)];
    }
  }
  const auto plane = weights.first(static_cast<size_t>(height * width));
  for (float& weight : plane) {
    weight /= static_cast<float>(tall * wide);
  }
  for (int64_t f = 1; f < frames; ++f) {
    std::ranges::copy(plane, weights.begin() + f * height * width);
  }
  return out;
}

void check_mask(std::span<const std::byte> bytes, const std::string& name, const ClipSize& clip) {
  const media::ImageSize mask = media::measure_image(bytes, name);
  const auto ratio = [](int64_t height, int64_t width) {
    return static_cast<double>(width) / static_cast<double>(height);
  };
  // Resized masks have rounded sides.
  constexpr double kSame = 0.02;
  check(std::abs(std::log(ratio(mask.height, mask.width) / ratio(clip.height, clip.width))) < kSame,
        "[data] the mask {} is {}x{} (height x width), but its clip is {}x{}: expected the same "
        "aspect ratio",
        name, mask.height, mask.width, clip.height, clip.width);
}

void apply_set_weight(const ClipSet& clips, int64_t clip, Sample& sample) {
  if (clips.sets().empty() || sample.loss_weights.bytes.empty()) {
    return;
  }
  const auto weight = static_cast<float>(clips.sets().at(clips.set_of(clip)).loss_weight);
  for (float& each : sample.loss_weights.as<float>()) {
    each *= weight;
  }
}

}  // namespace kinema::data
