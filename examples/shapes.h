#pragma once

// Moving shapes: what examples/shapes shows, drawn by make_shapes and measured by shapes_score.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::shapes {

inline constexpr std::array<const char*, 4> kColours = {"red", "green", "blue", "yellow"};
inline constexpr std::array<const char*, 3> kShapes = {"circle", "square", "triangle"};
inline constexpr std::array<const char*, 4> kDirections = {"left", "right", "up", "down"};

/// Background, and the four colours: RGB in [0, 1].
inline constexpr double kBackground = 0.05;
inline constexpr std::array<std::array<double, 3>, 4> kPalette = {
    {{0.90, 0.15, 0.15}, {0.15, 0.80, 0.20}, {0.20, 0.30, 0.95}, {0.95, 0.85, 0.15}}};

/// Indices into the lists above.
struct Combination {
  int colour = 0;
  int shape = 0;
  int direction = 0;
  bool operator==(const Combination&) const = default;
};

/// One clip's scene, in pixels of the canvas.
struct Scene {
  Combination what;
  double radius = 4;    // of the circle; half a side of the square
  double x = 0, y = 0;  // centre in the first frame
  double travel = 8;    // along the direction, over the whole clip
};

/// How far a shape of this radius reaches from its centre: left and right, up, down.
struct Reach {
  double side, up, down;
};
Reach reach(int shape, double radius);

/// Share of pixel (x, y) that the shape covers, by `samples` x `samples` points.
double coverage(int shape, double radius, double centre_x, double centre_y, double x, double y,
                int samples = 4);

/// The scene as u8 [frames, size * scale, size * scale, 3]; `scale` draws finer pixels of one
/// canvas.
HostArray render(const Scene& scene, int64_t size, int64_t frames, int64_t scale = 1);

/// What a caption asks for; a part that it does not name is absent.
struct Asked {
  std::optional<int> colour;
  std::optional<int> shape;
  std::optional<int> direction;
};
Asked parse_caption(std::string_view caption);

/// What a video shows.
struct Seen {
  int colour = -1;  // -1: nothing to see
  int shape = -1;
  std::optional<int> direction;  // absent when it moves less than a tenth of the width
  double coherent_frames = 0;    // share of frames with one shape of a plausible size
  double moved = 0;              // along the direction, as a share of the width
};

/// Measures u8 [f, h, w, 3]. A frame is coherent when at least 90 % of its bright pixels hang
/// together, and they cover 1.5 % to 30 % of it.
Seen measure(const HostArray& frames);

/// A caption against a video; a part that the caption does not name is absent.
struct Score {
  std::optional<bool> colour;
  std::optional<bool> shape;
  std::optional<bool> direction;
  bool coherent = false;  // every frame
};
Score score(const Asked& asked, const Seen& seen);

}  // namespace kinema::shapes
