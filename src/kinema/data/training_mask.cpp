#include "kinema/data/training_mask.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::data {
namespace {

constexpr std::array<std::string_view, 3> kNames{"strokes", "boxes", "all"};
constexpr double kSide = 512;  // of the pictures that the lengths below are for

/// The pixels of a mask.
struct Canvas {
  int64_t height;
  int64_t width;
  std::span<float> pixels;

  double unit() const { return static_cast<double>(std::min(height, width)) / kSide; }
};

int64_t between(RandomStream& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least + 1)));
}

/// A line with round ends.
void draw_line(const Canvas& canvas, double x0, double y0, double x1, double y1, double thick) {
  const double radius = thick / 2;
  const double dx = x1 - x0;
  const double dy = y1 - y0;
  const double squared = std::max(dx * dx + dy * dy, 1e-12);
  const auto first = [&](double a, double b) {
    return std::max<int64_t>(0, static_cast<int64_t>(std::floor(std::min(a, b) - radius)));
  };
  const auto last = [&](double a, double b, int64_t size) {
    return std::min(size - 1, static_cast<int64_t>(std::ceil(std::max(a, b) + radius)));
  };
  for (int64_t y = first(y0, y1); y <= last(y0, y1, canvas.height); ++y) {
    for (int64_t x = first(x0, x1); x <= last(x0, x1, canvas.width); ++x) {
      const double px = static_cast<double>(x) - x0;
      const double py = static_cast<double>(y) - y0;
      const double along = std::clamp((px * dx + py * dy) / squared, 0.0, 1.0);
      if (std::hypot(px - along * dx, py - along * dy) <= radius) {
        canvas.pixels[static_cast<size_t>(y * canvas.width + x)] = 1.0F;
      }
    }
  }
}

void draw_strokes(const Canvas& canvas, RandomStream& random) {
  constexpr double kMostAngle = 4;
  for (int64_t stroke = between(random, 1, 5); stroke > 0; --stroke) {
    double x = random.uniform() * static_cast<float>(canvas.width);
    double y = random.uniform() * static_cast<float>(canvas.height);
    for (int64_t part = between(random, 1, 5); part > 0; --part) {
      double angle = 0.01 + static_cast<double>(random.uniform()) * kMostAngle;
      if (part % 2 == 0) {
        angle = 2 * std::numbers::pi - angle;
      }
      const double length = canvas.unit() * static_cast<double>(between(random, 10, 210));
      const double thick = canvas.unit() * static_cast<double>(between(random, 5, 105));
      const double to_x =
          std::clamp(x + length * std::sin(angle), 0.0, static_cast<double>(canvas.width - 1));
      const double to_y =
          std::clamp(y + length * std::cos(angle), 0.0, static_cast<double>(canvas.height - 1));
      draw_line(canvas, x, y, to_x, to_y, std::max(thick, 1.0));
      x = to_x;
      y = to_y;
    }
  }
}

void draw_boxes(const Canvas& canvas, RandomStream& random) {
  const auto side = [&](int64_t limit) {
    const double pixels = canvas.unit() * static_cast<double>(between(random, 60, 300));
    return std::clamp<int64_t>(std::llround(pixels), 1, limit);
  };
  for (int64_t box = between(random, 1, 4); box > 0; --box) {
    const int64_t height = side(canvas.height);
    const int64_t width = side(canvas.width);
    const int64_t top = between(random, 0, canvas.height - height);
    const int64_t left = between(random, 0, canvas.width - width);
    for (int64_t y = top; y < top + height; ++y) {
      std::fill_n(canvas.pixels.begin() + y * canvas.width + left, width, 1.0F);
    }
  }
}

}  // namespace

MaskKind mask_kind_from_string(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  check(found != kNames.end(), "[data] `{}` is not a kind of mask, expected {}", name,
        fmt::join(kNames, ", "));
  return static_cast<MaskKind>(found - kNames.begin());
}

std::string text_of(const std::vector<MaskKind>& kinds, uint64_t seed) {
  std::string out;
  for (const MaskKind kind : kinds) {
    out += fmt::format("{} ", kNames.at(static_cast<size_t>(kind)));
  }
  return out + fmt::format("by seed {}", seed);
}

HostArray training_mask(const std::vector<MaskKind>& kinds, int64_t height, int64_t width,
                        std::array<uint32_t, 2> key) {
  check(!kinds.empty() && height > 0 && width > 0,
        "[data] a mask of {}x{} pixels of {} kinds is asked for", width, height, kinds.size());
  HostArray out(Shape{DType::F32, {height, width}});
  const Canvas canvas{height, width, out.as<float>()};
  RandomStream random(key);
  switch (kinds[random.below(kinds.size())]) {
    case MaskKind::STROKES:
      draw_strokes(canvas, random);
      break;
    case MaskKind::BOXES:
      draw_boxes(canvas, random);
      break;
    case MaskKind::ALL:
      std::ranges::fill(canvas.pixels, 1.0F);
      break;
  }
  return out;
}

void add_training_mask(const std::vector<MaskKind>& kinds, const ClipFormat& format,
                       std::array<uint32_t, 2> key, ClipControl& control) {
  if (kinds.empty() || !control.mask.bytes.empty()) {
    return;
  }
  const HostArray one = training_mask(kinds, format.height, format.width, key);
  control.mask = HostArray(Shape{DType::F32, {format.num_frames, format.height, format.width}});
  auto to = control.mask.bytes.begin();
  for (int64_t frame = 0; frame < format.num_frames; ++frame) {
    to = std::ranges::copy(one.bytes, to).out;
  }
}

}  // namespace kinema::data
