#include "kinema/encoders/control_video.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"

namespace kinema::encoders {
namespace {

/// Frame i of u8 [f, h, w, ...], without that axis.
HostArray frame_at(const HostArray& frames, int64_t i) {
  HostArray out(
      Shape{frames.shape.dtype, Dims(frames.shape.dims.begin() + 1, frames.shape.dims.end())});
  std::copy_n(frames.bytes.begin() + i * std::ssize(out.bytes), std::ssize(out.bytes),
              out.bytes.begin());
  return out;
}

/// A mask u8 [h, w] as a picture [h, w, 3].
HostArray as_picture(const HostArray& mask) {
  HostArray out(Shape{DType::U8, {mask.shape.dims[0], mask.shape.dims[1], 3}});
  for (size_t i = 0; i < mask.bytes.size(); ++i) {
    std::fill_n(out.bytes.begin() + static_cast<int64_t>(3 * i), 3, mask.bytes[i]);
  }
  return out;
}

void check_given(const ControlVideo& given, const PixelSizes& sizes) {
  const Shape& frames = given.frames.shape;
  const Shape& mask = given.mask.shape;
  const bool has_frames = !given.frames.bytes.empty();
  check(!has_frames || (frames.dtype == DType::U8 && frames.rank() == 4 && frames.dims[3] == 3),
        "[image] a control video is {}, expected u8[f,h,w,3]", to_string(frames));
  check(!has_frames || frames.dims[0] == sizes.num_frames,
        "[image] the control video has {} frames, but the result has {}",
        has_frames ? frames.dims[0] : 0, sizes.num_frames);
  if (given.mask.bytes.empty()) {
    return;
  }
  check(has_frames, "[image] masks are given without the control video that they divide");
  check(mask.dtype == DType::U8 && mask.rank() == 3, "[image] the masks are {}, expected u8[f,h,w]",
        to_string(mask));
  check(mask.dims[0] == frames.dims[0],
        "[image] there are {} masks for the {} frames of the control video, expected one for each",
        mask.dims[0], frames.dims[0]);
  check(mask.dims[1] == frames.dims[1] && mask.dims[2] == frames.dims[2],
        "[image] the masks are {} x {} (height x width), but the control video is {} x {}\n  "
        "expected the same size",
        mask.dims[1], mask.dims[2], frames.dims[1], frames.dims[2]);
}

/// Of one axis: the two pixels that a result's pixel lies between, and the part of the second.
struct Between {
  int64_t first = 0;
  int64_t second = 0;
  float part = 0.0F;
};

/// Bilinear sampling without antialiasing, with the corners of pixels aligned: torch's interpolate.
std::vector<Between> between(int64_t from, int64_t to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<Between> out;
  for (int64_t i = 0; i < to; ++i) {
    const float at = std::max(scale * (static_cast<float>(i) + 0.5F) - 0.5F, 0.0F);
    const auto first = std::min(static_cast<int64_t>(at), from - 1);
    out.push_back({.first = first,
                   .second = std::min(first + 1, from - 1),
                   .part = at - static_cast<float>(first)});
  }
  return out;
}

/// A reference in the middle of a white picture, f32 [3, H, W].
HostArray on_canvas(const HostArray& reference, int64_t height, int64_t width) {
  // The processor makes sides multiples of 8.
  constexpr int64_t kUnit = 8;
  const int64_t h = reference.shape.dims.at(0) / kUnit * kUnit;
  const int64_t w = reference.shape.dims.at(1) / kUnit * kUnit;
  check(h > 0 && w > 0, "[image] a reference image is {}, expected at least {} x {} pixels",
        to_string(reference.shape), kUnit, kUnit);
  const HostArray pixels = autoencoder_pixels(reference, h, w);
  const double scale = std::min(static_cast<double>(height) / static_cast<double>(h),
                                static_cast<double>(width) / static_cast<double>(w));
  const auto scaled = [&](int64_t side, int64_t most) {
    return std::clamp(static_cast<int64_t>(static_cast<double>(side) * scale), int64_t{1}, most);
  };
  const int64_t rows = scaled(h, height);
  const int64_t columns = scaled(w, width);
  const int64_t top = (height - rows) / 2;
  const int64_t left = (width - columns) / 2;
  HostArray out(Shape{DType::F32, {3, height, width}});
  const auto to = out.as<float>();
  std::ranges::fill(to, 1.0F);
  const auto from = pixels.as<float>();
  const std::vector<Between> vertical = between(h, rows);
  const std::vector<Between> horizontal = between(w, columns);
  for (int64_t i = 0; i < 3 * rows * columns; ++i) {
    const int64_t c = i / (rows * columns);
    const int64_t y = i / columns % rows;
    const int64_t x = i % columns;
    const Between& v = vertical[static_cast<size_t>(y)];
    const Between& u = horizontal[static_cast<size_t>(x)];
    const auto in_row = [&](int64_t row) {
      const int64_t start = (c * h + row) * w;
      return (1.0F - u.part) * from[start + u.first] + u.part * from[start + u.second];
    };
    to[(c * height + top + y) * width + left + x] =
        (1.0F - v.part) * in_row(v.first) + v.part * in_row(v.second);
  }
  return out;
}

/// The frames where the mask is above a half (`made`) or not, zeros elsewhere.
HostArray part_of_frames(const ControlPixels& pixels, bool made) {
  HostArray out = pixels.frames;
  const auto values = out.as<float>();
  const auto mask = pixels.mask.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] *= (mask[i % mask.size()] > 0.5F) == made ? 1.0F : 0.0F;
  }
  return out;
}

/// The mask's pixels in each cell, as channels: f32 [s s, f, h, w] for latents [z, f, h, w].
HostArray mask_planes(const HostArray& mask, const Dims& latents) {
  const Dims& m = mask.shape.dims;  // [F, H, W]
  const int64_t f = latents[1];
  const int64_t h = latents[2];
  const int64_t w = latents[3];
  const int64_t side = m[1] / h;
  HostArray out(Shape{DType::F32, {side * side, f, h, w}});
  const auto to = out.as<float>();
  const auto from = mask.as<float>();
  for (int64_t i = 0; i < std::ssize(to); ++i) {
    const int64_t channel = i / (f * h * w);
    // The frame in the middle of the latent frame's part: floor((i + 1/2) F / f).
    const int64_t frame = (2 * (i / (h * w) % f) + 1) * m[0] / (2 * f);
    const int64_t row = i / w % h * side + channel / side;
    const int64_t column = i % w * side + channel % side;
    to[i] = from[(frame * m[1] + row) * m[2] + column];
  }
  return out;
}

/// Copies [c, f, h, w] to the channels from `channel` and the frames from `frame` of `out`.
void place(const HostArray& part, int64_t channel, int64_t frame, HostArray& out) {
  const Dims& p = part.shape.dims;
  const Dims& o = out.shape.dims;
  const int64_t plane = p[1] * p[2] * p[3];
  for (int64_t c = 0; c < p[0]; ++c) {
    std::ranges::copy(part.as<float>().subspan(c * plane, plane),
                      out.as<float>().begin() + ((channel + c) * o[1] + frame) * p[2] * p[3]);
  }
}

}  // namespace

ControlPixels control_pixels(const ControlVideo& given, const PixelSizes& sizes) {
  check_given(given, sizes);
  const int64_t frames = sizes.num_frames;
  const int64_t plane = sizes.height * sizes.width;
  ControlPixels out{.frames = HostArray(Shape{DType::F32, {3, frames, sizes.height, sizes.width}}),
                    .mask = HostArray(Shape{DType::F32, {frames, sizes.height, sizes.width}}),
                    .references = {}};
  std::ranges::fill(out.mask.as<float>(), 1.0F);
  for (int64_t i = 0; i < frames && !given.frames.bytes.empty(); ++i) {
    const HostArray pixels =
        autoencoder_pixels(frame_at(given.frames, i), sizes.height, sizes.width);
    for (int64_t c = 0; c < 3; ++c) {
      std::ranges::copy(pixels.as<float>().subspan(c * plane, plane),
                        out.frames.as<float>().begin() + (c * frames + i) * plane);
    }
  }
  for (int64_t i = 0; i < frames && !given.mask.bytes.empty(); ++i) {
    const HostArray grey =
        autoencoder_pixels(as_picture(frame_at(given.mask, i)), sizes.height, sizes.width);
    std::ranges::transform(grey.as<float>().first(plane), out.mask.as<float>().begin() + i * plane,
                           [](float value) { return (value + 1.0F) / 2.0F; });
  }
  for (const HostArray& each : given.references) {
    out.references.push_back(on_canvas(each, sizes.height, sizes.width));
  }
  return out;
}

HostArray control_condition(const ControlVideo& given, const PixelSizes& sizes,
                            const Autoencoder& autoencoder) {
  const ControlPixels pixels = control_pixels(given, sizes);
  const HostArray kept = autoencoder.encode(part_of_frames(pixels, /*made=*/false));
  const HostArray made = autoencoder.encode(part_of_frames(pixels, /*made=*/true));
  const HostArray planes = mask_planes(pixels.mask, kept.shape.dims);
  const int64_t z = kept.shape.dims[0];
  const auto references = std::ssize(pixels.references);
  Dims dims = kept.shape.dims;
  dims[0] = 2 * z + planes.shape.dims[0];
  dims[1] += references;
  HostArray out(Shape{DType::F32, dims});
  place(kept, 0, references, out);
  place(made, z, references, out);
  place(planes, 2 * z, references, out);
  for (int64_t i = 0; i < references; ++i) {
    HostArray picture = pixels.references[static_cast<size_t>(i)];
    picture.shape.dims.insert(picture.shape.dims.begin() + 1, 1);
    place(autoencoder.encode(picture), 0, references - 1 - i, out);
  }
  return out;
}

PictureSize control_size(const PictureSize& video, const PictureSize& most, int64_t unit) {
  constexpr int64_t kCell = 8;  // sides are multiples of it before they are scaled
  double height = static_cast<double>(video.height / kCell * kCell);
  double width = static_cast<double>(video.width / kCell * kCell);
  if (height * width > static_cast<double>(most.height) * static_cast<double>(most.width)) {
    const double scale = std::min(static_cast<double>(most.width) / width,
                                  static_cast<double>(most.height) / height);
    height = std::floor(height * scale);
    width = std::floor(width * scale);
  }
  const PictureSize out{.height = static_cast<int64_t>(height) / unit * unit,
                        .width = static_cast<int64_t>(width) / unit * unit};
  check(out.height > 0 && out.width > 0,
        "[image] a control video of {} x {} (height x width) is too small: {} pixels are needed",
        video.height, video.width, unit);
  return out;
}

}  // namespace kinema::encoders
