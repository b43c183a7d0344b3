#include "kinema/data/color_change.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kinema/core/error.h"

namespace kinema::data {
namespace {

constexpr float kChanged = 0.33F;  // of all clips
constexpr float kMostHue = 16.0F;  // OpenCV's 8 of 180
constexpr float kMostGamma = 0.05F;

/// A colour of [0, 1] with its hue turned by `sixths` of the circle.
void turn_hue(float sixths, float& red, float& green, float& blue) {
  const float value = std::max({red, green, blue});
  const float chroma = value - std::min({red, green, blue});
  if (chroma <= 0.0F) {
    return;  // grey has no hue
  }
  float hue = value == red     ? (green - blue) / chroma
              : value == green ? (blue - red) / chroma + 2.0F
                               : (red - green) / chroma + 4.0F;
  hue += sixths;
  // By https://en.wikipedia.org/wiki/HSL_and_HSV#HSV_to_RGB_alternative.
  const auto channel = [&](float n) {
    float k = std::fmod(n + hue, 6.0F);
    k = k < 0.0F ? k + 6.0F : k;
    return value - chroma * std::clamp(std::min(k, 4.0F - k), 0.0F, 1.0F);
  };
  red = channel(5.0F);
  green = channel(3.0F);
  blue = channel(1.0F);
}

}  // namespace

ColorChange draw_color_change(RandomStream& random) {
  const float changes = random.uniform();
  const float kind = random.uniform();
  const float amount = 2.0F * random.uniform() - 1.0F;
  ColorChange out;
  if (changes < kChanged && kind < 0.5F) {
    out.hue = kMostHue * amount;
  } else if (changes < kChanged) {
    out.gamma = 1.0F + kMostGamma * amount;
  }
  return out;
}

HostArray with_colors(HostArray pixels, const ColorChange& change) {
  const Shape& shape = pixels.shape;
  check(shape.dtype == DType::F32 && shape.rank() == 4 && shape.dims[0] == 3,
        "[data] with_colors was given {}, f32 [3, f, h, w] was expected", to_string(shape));
  if (change.is_none()) {
    return pixels;
  }
  const auto values = pixels.as<float>();
  const size_t plane = values.size() / 3;
  for (size_t i = 0; i < plane; ++i) {
    std::array<float, 3> rgb{};
    for (size_t c = 0; c < 3; ++c) {
      rgb[c] = std::clamp((values[c * plane + i] + 1.0F) / 2.0F, 0.0F, 1.0F);
    }
    if (change.hue != 0) {
      turn_hue(change.hue / 60.0F, rgb[0], rgb[1], rgb[2]);
    }
    for (size_t c = 0; c < 3; ++c) {
      const float level = change.gamma == 1 ? rgb[c] : std::pow(rgb[c], change.gamma);
      values[c * plane + i] = 2.0F * level - 1.0F;
    }
  }
  return pixels;
}

}  // namespace kinema::data
