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

/// The scene's path as a control video of the same sizes: a white disc at the shape's centre, on
/// black.
HostArray render_path(const Scene& scene, int64_t size, int64_t frames, int64_t scale = 1);

/// A mask u8 [size * scale, size * scale, 3] of the frame in the middle: white over the shape and
/// `margin` pixels of the canvas around it, black elsewhere.
HostArray render_mask(const Scene& scene, int64_t size, double margin, int64_t scale = 1);

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
  /// The centre of what is bright in each frame, x and y as shares of the width and height; absent
  /// in a dark frame.
  std::vector<std::optional<std::array<double, 2>>> centres;
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
  // Of edits; absent for others.
  std::optional<bool> path;  // follows a control video
  std::optional<bool> kept;  // what a mask keeps is unchanged
};
Score score(const Asked& asked, const Seen& seen);

/// The largest distance of the two centres in a frame, in pixels of a video `width` pixels wide;
/// infinite if there are other numbers of frames, or only one of the two has a centre.
double distance(const Seen& video, const Seen& control, int64_t width);

/// The number of values that differ where the mask is black. All are u8 [f, h, w, 3]. Throws an
/// Error for other shapes.
int64_t changed_values(const HostArray& edited, const HostArray& source, const HostArray& mask);

}  // namespace kinema::shapes
