#include "shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kinema/core/error.h"
#include "kinema/text/hashed.h"

namespace kinema::shapes {
namespace {

constexpr double kSquareHalf = 1.0;  // half a side: the circle fits into it
constexpr double kTriangleOuter =
    1.30;  // circumradius; at the circle's area (1.56) it would not fit

bool inside(int shape, double radius, double dx, double dy) {
  switch (shape) {
    case 0:
      return dx * dx + dy * dy <= radius * radius;
    case 1:
      return std::max(std::abs(dx), std::abs(dy)) <= kSquareHalf * radius;
    default: {
      // Equilateral, pointing up: above the base, below the two sides.
      const double outer = kTriangleOuter * radius;
      return dy <= outer / 2 && std::sqrt(3.0) * std::abs(dx) <= dy + outer;
    }
  }
}

// Area of a shape of radius 1.
double unit_area(int shape) {
  switch (shape) {
    case 0:
      return 3.141592653589793;
    case 1:
      return 4 * kSquareHalf * kSquareHalf;
    default:
      return 0.75 * std::sqrt(3.0) * kTriangleOuter * kTriangleOuter;
  }
}

template <size_t n>
std::optional<int> find_word(const std::array<const char*, n>& list, const std::string& word) {
  for (size_t i = 0; i < n; ++i) {
    if (word == list[i]) {
      return static_cast<int>(i);
    }
  }
  return std::nullopt;
}

// One frame as the share of each pixel that is not background, judged by its brightest channel.
struct Mask {
  int64_t height;
  int64_t width;
  std::vector<double> share;
  double sum = 0, x = 0, y = 0;  // total and centroid

  double at(int64_t row, int64_t column) const {
    return share[static_cast<size_t>(row * width + column)];
  }
};

Mask mask_of(const uint8_t* rgb, int64_t height, int64_t width, double brightest) {
  Mask mask{height, width, std::vector<double>(static_cast<size_t>(height * width))};
  for (int64_t i = 0; i < height * width; ++i) {
    const double top = std::max({rgb[i * 3], rgb[i * 3 + 1], rgb[i * 3 + 2]}) / 255.0;
    const double share =
        std::clamp((top - kBackground) / std::max(0.2, brightest - kBackground), 0.0, 1.0);
    // Noise of the background must not add up over the frame.
    const double kept = share < 0.2 ? 0 : share;
    mask.share[static_cast<size_t>(i)] = kept;
    mask.sum += kept;
    mask.x += kept * (static_cast<double>(i % width) + 0.5);
    mask.y += kept * (static_cast<double>(i / width) + 0.5);
  }
  if (mask.sum > 0) {
    mask.x /= mask.sum;
    mask.y /= mask.sum;
  }
  return mask;
}

// Pixels of the largest 4-connected piece of the bright ones, and of all.
std::pair<int64_t, int64_t> largest_piece(const Mask& mask) {
  std::vector<bool> open(mask.share.size());
  int64_t all = 0;
  for (size_t i = 0; i < open.size(); ++i) {
    open[i] = mask.share[i] >= 0.5;
    all += open[i] ? 1 : 0;
  }
  int64_t largest = 0;
  std::vector<int64_t> stack;
  for (int64_t start = 0; start < mask.height * mask.width; ++start) {
    int64_t size = 0;
    stack.assign(1, start);
    while (!stack.empty()) {
      const int64_t at = stack.back();
      stack.pop_back();
      if (!open[static_cast<size_t>(at)]) {
        continue;
      }
      open[static_cast<size_t>(at)] = false;
      ++size;
      const int64_t x = at % mask.width;
      const int64_t y = at / mask.width;
      if (x > 0) stack.push_back(at - 1);
      if (x + 1 < mask.width) stack.push_back(at + 1);
      if (y > 0) stack.push_back(at - mask.width);
      if (y + 1 < mask.height) stack.push_back(at + mask.width);
    }
    largest = std::max(largest, size);
  }
  return {largest, all};
}

bool is_coherent(const Mask& mask) {
  const auto [largest, all] = largest_piece(mask);
  const double area = static_cast<double>(mask.height * mask.width);
  return all > 0 && static_cast<double>(largest) >= 0.9 * static_cast<double>(all) &&
         static_cast<double>(largest) >= 0.015 * area && static_cast<double>(largest) <= 0.3 * area;
}

// How well each shape of the mask's own area and centroid covers it: intersection over union.
std::array<double, 3> shape_overlap(const Mask& mask) {
  std::array<double, 3> overlap{};
  for (int shape = 0; shape < 3; ++shape) {
    const double radius = std::sqrt(mask.sum / unit_area(shape));
    double common = 0;
    double either = 0;
    for (int64_t y = 0; y < mask.height; ++y) {
      for (int64_t x = 0; x < mask.width; ++x) {
        const double want =
            coverage(shape, radius, mask.x, mask.y, static_cast<double>(x), static_cast<double>(y));
        common += std::min(want, mask.at(y, x));
        either += std::max(want, mask.at(y, x));
      }
    }
    overlap[static_cast<size_t>(shape)] = either > 0 ? common / either : 0;
  }
  return overlap;
}

// The palette's colour nearest in direction from the background, over all bright pixels.
int nearest_colour(const std::array<double, 3>& sum) {
  int best = -1;
  double best_cosine = -2;
  for (size_t c = 0; c < kPalette.size(); ++c) {
    double dot = 0;
    double a = 0;
    double b = 0;
    for (size_t k = 0; k < 3; ++k) {
      const double want = kPalette[c][k] - kBackground;
      dot += want * sum[k];
      a += want * want;
      b += sum[k] * sum[k];
    }
    const double cosine = dot / std::sqrt(std::max(a * b, 1e-12));
    if (cosine > best_cosine) {
      best_cosine = cosine;
      best = static_cast<int>(c);
    }
  }
  return best;
}

// Least-squares slope of positions over frames, times the frames passed.
double travel(const std::vector<double>& positions) {
  const auto n = static_cast<double>(positions.size());
  if (positions.size() < 2) {
    return 0;
  }
  double xy = 0;
  double xx = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const double t = static_cast<double>(i) - (n - 1) / 2;
    xy += t * positions[i];
    xx += t * t;
  }
  return xy / xx * (n - 1);
}

}  // namespace

Reach reach(int shape, double radius) {
  switch (shape) {
    case 0:
      return {radius, radius, radius};
    case 1:
      return {kSquareHalf * radius, kSquareHalf * radius, kSquareHalf * radius};
    default: {
      const double outer = kTriangleOuter * radius;
      return {outer * std::sqrt(3.0) / 2, outer, outer / 2};
    }
  }
}

double coverage(int shape, double radius, double centre_x, double centre_y, double x, double y,
                int samples) {
  int hits = 0;
  for (int j = 0; j < samples; ++j) {
    for (int i = 0; i < samples; ++i) {
      hits += inside(shape, radius, x + (i + 0.5) / samples - centre_x,
                     y + (j + 0.5) / samples - centre_y)
                  ? 1
                  : 0;
    }
  }
  return static_cast<double>(hits) / (samples * samples);
}

namespace {

/// The centre in frame f, in pixels of the canvas.
std::array<double, 2> centre_in(const Scene& scene, int64_t f, int64_t frames) {
  const double moved =
      frames > 1 ? scene.travel * static_cast<double>(f) / static_cast<double>(frames - 1) : 0;
  const int direction = scene.what.direction;
  const double dx = direction == 0 ? -1 : direction == 1 ? 1 : 0;
  const double dy = direction == 2 ? -1 : direction == 3 ? 1 : 0;
  return {scene.x + dx * moved, scene.y + dy * moved};
}

/// One shape, of one colour, on an even background.
HostArray draw(const Scene& scene, int64_t size, int64_t frames, int64_t scale,
               const std::array<double, 3>& colour, double background) {
  const int64_t side = size * scale;
  HostArray out(Shape{DType::U8, {frames, side, side, 3}});
  uint8_t* p = out.as<uint8_t>().data();
  const auto s = static_cast<double>(scale);
  for (int64_t f = 0; f < frames; ++f) {
    const auto [centre_x, centre_y] = centre_in(scene, f, frames);
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) {
        const double share = coverage(scene.what.shape, scene.radius * s, centre_x * s,
                                      centre_y * s, static_cast<double>(x), static_cast<double>(y));
        for (size_t k = 0; k < 3; ++k) {
          const double value = background + share * (colour[k] - background);
          *p++ = static_cast<uint8_t>(std::lround(255 * value));
        }
      }
    }
  }
  return out;
}

}  // namespace

HostArray render(const Scene& scene, int64_t size, int64_t frames, int64_t scale) {
  return draw(scene, size, frames, scale, kPalette[static_cast<size_t>(scene.what.colour)],
              kBackground);
}

HostArray render_path(const Scene& scene, int64_t size, int64_t frames, int64_t scale) {
  Scene disc = scene;
  disc.what.shape = 0;
  disc.radius = static_cast<double>(size) / 10;
  return draw(disc, size, frames, scale, {1, 1, 1}, 0);
}

HostArray render_mask(const Scene& scene, int64_t size, double margin, int64_t scale) {
  const auto [centre_x, centre_y] = centre_in(scene, 1, 3);
  const Reach r = reach(scene.what.shape, scene.radius);
  const int64_t side = size * scale;
  HostArray out(Shape{DType::U8, {side, side, 3}});
  uint8_t* p = out.as<uint8_t>().data();
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      const double dx = (static_cast<double>(x) + 0.5) / static_cast<double>(scale) - centre_x;
      const double dy = (static_cast<double>(y) + 0.5) / static_cast<double>(scale) - centre_y;
      const bool covered =
          std::abs(dx) <= r.side + margin && dy >= -r.up - margin && dy <= r.down + margin;
      p = std::fill_n(p, 3, static_cast<uint8_t>(covered ? 255 : 0));
    }
  }
  return out;
}

Asked parse_caption(std::string_view caption) {
  Asked asked;
  for (const std::string& word : text::words(caption)) {
    if (const auto colour = find_word(kColours, word)) {
      asked.colour = colour;
    }
    if (const auto shape = find_word(kShapes, word)) {
      asked.shape = shape;
    }
    if (const auto direction = find_word(kDirections, word)) {
      asked.direction = direction;
    }
  }
  return asked;
}

Seen measure(const HostArray& frames) {
  const Shape& shape = frames.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 4 && shape.dims[3] == 3 && shape.elements() > 0,
        "[shapes] measure was given {}, u8 [f, h, w, 3] was expected", to_string(shape));
  const int64_t height = shape.dims[1];
  const int64_t width = shape.dims[2];
  const int64_t pixels = height * width;
  // Full coverage is what the brightest tenth of a percent reaches, so that a pale video is
  // measured by its own scale.
  std::vector<uint8_t> tops;
  const auto values = frames.as<uint8_t>();
  for (size_t i = 0; i + 2 < values.size(); i += 3) {
    tops.push_back(std::max({values[i], values[i + 1], values[i + 2]}));
  }
  const auto rank = static_cast<int64_t>(static_cast<double>(tops.size()) * 0.98);
  std::nth_element(tops.begin(), tops.begin() + rank, tops.end());
  const double brightest = tops[static_cast<size_t>(rank)] / 255.0;

  Seen seen;
  std::array<double, 3> overlap{};
  std::array<double, 3> colour{};
  std::vector<double> xs;
  std::vector<double> ys;
  int coherent = 0;
  for (int64_t f = 0; f < shape.dims[0]; ++f) {
    const uint8_t* rgb = values.data() + f * pixels * 3;
    const Mask mask = mask_of(rgb, height, width, brightest);
    coherent += is_coherent(mask) ? 1 : 0;
    if (mask.sum <= 0) {
      seen.centres.emplace_back();
      continue;
    }
    seen.centres.push_back(
        std::array{mask.x / static_cast<double>(width), mask.y / static_cast<double>(height)});
    const auto one = shape_overlap(mask);
    for (size_t k = 0; k < 3; ++k) {
      overlap[k] += one[k];
    }
    for (int64_t i = 0; i < pixels; ++i) {
      for (size_t k = 0; k < 3; ++k) {
        colour[k] += mask.share[static_cast<size_t>(i)] *
                     (rgb[i * 3 + static_cast<int64_t>(k)] / 255.0 - kBackground);
      }
    }
    xs.push_back(mask.x);
    ys.push_back(mask.y);
  }
  seen.coherent_frames = static_cast<double>(coherent) / static_cast<double>(shape.dims[0]);
  if (xs.empty()) {
    return seen;
  }
  seen.colour = nearest_colour(colour);
  seen.shape = static_cast<int>(std::ranges::max_element(overlap) - overlap.begin());
  const double dx = travel(xs) / static_cast<double>(width);
  const double dy = travel(ys) / static_cast<double>(height);
  seen.moved = std::max(std::abs(dx), std::abs(dy));
  if (seen.moved >= 0.1) {
    seen.direction = std::abs(dx) > std::abs(dy) ? (dx < 0 ? 0 : 1) : (dy < 0 ? 2 : 3);
  }
  return seen;
}

Score score(const Asked& asked, const Seen& seen) {
  Score out;
  if (asked.colour) {
    out.colour = seen.colour == *asked.colour;
  }
  if (asked.shape) {
    out.shape = seen.shape == *asked.shape;
  }
  if (asked.direction) {
    out.direction = seen.direction == asked.direction;
  }
  out.coherent = seen.coherent_frames == 1;
  return out;
}

double distance(const Seen& video, const Seen& control, int64_t width) {
  if (video.centres.size() != control.centres.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double out = 0;
  for (size_t f = 0; f < video.centres.size(); ++f) {
    const auto& a = video.centres[f];
    const auto& b = control.centres[f];
    if (!a || !b) {
      out = a || b ? std::numeric_limits<double>::infinity() : out;
      continue;
    }
    const double apart = std::hypot((*a)[0] - (*b)[0], (*a)[1] - (*b)[1]);
    out = std::max(out, apart * static_cast<double>(width));
  }
  return out;
}

int64_t changed_values(const HostArray& edited, const HostArray& source, const HostArray& mask) {
  check(edited.shape == source.shape && edited.shape == mask.shape,
        "[shapes] the edited picture is {}, its source {}, the mask {}", to_string(edited.shape),
        to_string(source.shape), to_string(mask.shape));
  int64_t out = 0;
  for (size_t i = 0; i < edited.bytes.size(); ++i) {
    const auto at = [i](const HostArray& array) { return array.as<uint8_t>()[i]; };
    out += at(mask) == 0 && at(edited) != at(source) ? 1 : 0;
  }
  return out;
}

}  // namespace kinema::shapes
