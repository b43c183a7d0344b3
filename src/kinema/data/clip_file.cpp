#include "kinema/data/clip_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/data/loss_weights.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/resample.h"
#include "kinema/media/video.h"

namespace kinema::data {
namespace {

/// The start of a window with `spare` possible positions; the middle if no position is given.
int64_t offset(std::optional<float> place, int64_t spare) {
  return place ? std::min(spare, static_cast<int64_t>(*place * static_cast<float>(spare + 1)))
               : spare / 2;
}

/// `24`, `29.97`.
std::string rate_text(double fps) { return fmt::format("{:.4g}", fps); }

/// `64 frames at target_fps 16 (in the file 120 at 30 frames a second)`.
std::string frames_of(const ClipSize& clip, const ClipFormat& format) {
  if (format.fps <= 0) {
    return fmt::format("{} frames", clip.frames);
  }
  return fmt::format("{} frames at target_fps {} (in the file {} at {} frames a second)",
                     frames_in(clip, format), rate_text(format.fps), clip.frames,
                     rate_text(clip.fps));
}

}  // namespace

ClipSize measure_clip(std::span<const std::byte> bytes, const std::string& name) {
  if (media::is_image(bytes)) {
    const media::ImageSize size = media::measure_image(bytes, name);
    return {.frames = 1,
            .height = size.height,
            .width = size.width,
            .has_alpha = size.has_alpha,
            .is_hdr = size.is_hdr};
  }
  const media::VideoProbe probe = media::probe_video(bytes, name);
  const double width = static_cast<double>(probe.width) * probe.pixel_aspect;
  return {.frames = probe.frames,
          .height = probe.height,
          .width = std::max<int64_t>(1, std::llround(width)),
          .fps = probe.fps,
          .seconds = probe.seconds,
          .has_alpha = probe.has_alpha,
          .is_hdr = probe.is_hdr};
}

void verify_clip(std::span<const std::byte> bytes, const std::string& name) {
  if (media::is_image(bytes)) {
    media::read_image(bytes, name);
  } else {
    media::read_video(bytes, name, {.stride = std::numeric_limits<int64_t>::max()});
  }
}

int64_t frames_in(const ClipSize& clip, const ClipFormat& format) {
  if (format.fps <= 0 || clip.seconds <= 0) {
    return clip.frames;
  }
  // Counts every k / fps before the end. The slack is for containers with millisecond time stamps,
  // the bound for files that claim huge durations.
  const double frames = std::ceil(clip.seconds * format.fps - 0.05);
  return static_cast<int64_t>(std::clamp(frames, 1.0, 1e12));
}

int64_t frames_needed(const ClipFormat& format) {
  return format.fps > 0 ? format.num_frames : (format.num_frames - 1) * format.frame_stride + 1;
}

std::string frames_key(const ClipFormat& format) {
  return format.fps > 0 ? "target_fps" : "frame_stride";
}

std::string frames_text(const ClipFormat& format) {
  return format.fps > 0 ? fmt::format("{}", format.fps) : fmt::format("{}", format.frame_stride);
}

void check_length(const ClipSize& clip, const std::string& name, const ClipFormat& format) {
  const int64_t needed = frames_needed(format);
  check(needed == 1 || clip.frames != 1 || clip.fps > 0,
        "[data] {} is an image, but num_frames is {}", name, format.num_frames);
  check(frames_in(clip, format) >= needed, "[data] {} is too short: {}, but num_frames {}", name,
        frames_of(clip, format),
        needed == format.num_frames ? fmt::format("is {}", needed)
                                    : fmt::format("{} with frame_stride {} takes {}",
                                                  format.num_frames, format.frame_stride, needed));
}

Fit fit_to_size(double shown_height, double shown_width, int64_t height, int64_t width,
                std::optional<float> crop) {
  // The smallest size with the same aspect ratio that covers height x width.
  const double scale = std::max(static_cast<double>(height) / shown_height,
                                static_cast<double>(width) / shown_width);
  const auto scaled = [scale](double size, int64_t at_least) {
    return std::max(at_least, static_cast<int64_t>(std::lround(size * scale)));
  };
  Fit out{.height = scaled(shown_height, height), .width = scaled(shown_width, width)};
  out.top = offset(crop, out.height - height);
  out.left = offset(crop, out.width - width);
  return out;
}

HostArray fit_frames(const HostArray& frames, int64_t height, int64_t width,
                     std::optional<float> crop, double pixel_aspect) {
  const Shape& shape = frames.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 4 && shape.dims[3] == 3 &&
            shape.elements() > 0 && height > 0 && width > 0,
        "[data] fit_frames was given {}, u8 [f, h, w, 3] was expected", to_string(shape));
  const int64_t count = shape.dims[0];
  const int64_t in_height = shape.dims[1];
  const int64_t in_width = shape.dims[2];
  const auto [tall, wide, top, left] =
      fit_to_size(static_cast<double>(in_height), static_cast<double>(in_width) * pixel_aspect,
                  height, width, crop);

  HostArray out(Shape{DType::F32, {3, count, height, width}});
  const auto bytes = frames.as<uint8_t>();
  const auto to = out.as<float>();
  const size_t frame_values = static_cast<size_t>(in_height * in_width * 3);
  std::vector<float> in(frame_values);
  std::vector<float> resized(static_cast<size_t>(tall * wide * 3));
  for (int64_t f = 0; f < count; ++f) {
    for (size_t i = 0; i < frame_values; ++i) {
      in[i] = static_cast<float>(bytes[static_cast<size_t>(f) * frame_values + i]) / 127.5F - 1.0F;
    }
    if (tall == in_height && wide == in_width) {
      resized = in;
    } else {
      media::resample(in, in_height, in_width, 3, resized, tall, wide, media::Filter::Bilinear);
    }
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
          to[static_cast<size_t>(((c * count + f) * height + y) * width + x)] =
              resized[static_cast<size_t>(((top + y) * wide + left + x) * 3 + c)];
        }
      }
    }
  }
  return out;
}

HostArray read_clip(const std::filesystem::path& path, const ClipFormat& format,
                    const ClipWindow& window) {
  const io::MappedFile file = io::MappedFile::open(path);
  return read_clip(file.bytes(), file.path(), format, window);
}

HostArray read_clip(std::span<const std::byte> bytes, const std::string& name,
                    const ClipFormat& format, const ClipWindow& window) {
  if (media::is_image(bytes)) {
    check(format.num_frames == 1, "[data] {} is an image, but num_frames is {}", name,
          format.num_frames);
    HostArray image = media::read_image(bytes, name, format.background);
    image.shape.dims.insert(image.shape.dims.begin(), 1);
    return fit_frames(image, format.height, format.width, window.crop);
  }
  const ClipSize clip = measure_clip(bytes, name);
  check_length(clip, name, format);
  const int64_t spare = frames_in(clip, format) - frames_needed(format);
  const media::Video video = media::read_video(bytes, name,
                                               {.first_frame = offset(window.start, spare),
                                                .stride = format.frame_stride,
                                                .fps = format.fps,
                                                .max_frames = format.num_frames,
                                                .background = format.background});
  check(video.frames.shape.dims[0] == format.num_frames,
        "[data] {} gave {} frames where {} were expected", name, video.frames.shape.dims[0],
        format.num_frames);
  return fit_frames(video.frames, format.height, format.width, window.crop, video.pixel_aspect);
}

namespace {

/// The first channel of a picture u8 [h, w, 3] as a mask.
HostArray fitted_mask(HostArray picture, const ClipFormat& format, const ClipWindow& window) {
  picture.shape.dims.insert(picture.shape.dims.begin(), 1);
  const HostArray fitted = fit_frames(picture, format.height, format.width, window.crop);
  HostArray out(Shape{DType::F32, {format.height, format.width}});
  const auto from = fitted.as<float>();
  const auto to = out.as<float>();
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = std::clamp((from[i] + 1.0F) / 2.0F, 0.0F, 1.0F);
  }
  return out;
}

}  // namespace

HostArray read_mask(std::span<const std::byte> bytes, const std::string& name, const ClipSize& clip,
                    const ClipFormat& format, const ClipWindow& window) {
  check_mask(bytes, name, clip);
  return fitted_mask(media::read_image(bytes, name), format, window);
}

HostArray read_alpha_mask(std::span<const std::byte> bytes, const std::string& name,
                          const ClipFormat& format, const ClipWindow& window) {
  if (!media::is_image(bytes) || !media::measure_image(bytes, name).has_alpha) {
    return {};
  }
  // Over white and over black, a pixel differs by 255 - alpha (media::put_over).
  HostArray white = media::read_image(bytes, name, {.rgb = {255, 255, 255}});
  const HostArray black = media::read_image(bytes, name, {.rgb = {0, 0, 0}});
  const auto over_white = white.as<uint8_t>();
  const auto over_black = black.as<uint8_t>();
  for (size_t i = 0; i < over_white.size(); ++i) {
    over_white[i] = static_cast<uint8_t>(255 - std::max(0, over_white[i] - over_black[i]));
  }
  return fitted_mask(std::move(white), format, window);
}

}  // namespace kinema::data
