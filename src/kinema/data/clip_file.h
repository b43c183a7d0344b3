#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/data/clip_set.h"

/// The bytes of a clip: a video in any container that io reads, or an image as a clip of one frame.
namespace kinema::data {

/// Size, frames and rate of a clip's bytes, with the name `name` in messages. Throws an Error if
/// they are neither video nor image.
ClipSize measure_clip(std::span<const std::byte> bytes, const std::string& name);

/// The number of a clip's frames in a format: the file's frames, or, if the format has a rate, one
/// per 1 / fps seconds of its duration.
int64_t frames_in(const ClipSize& clip, const ClipFormat& format);
/// The number of these that a sample spans.
int64_t frames_needed(const ClipFormat& format);

/// The key that selects frames in a format (other than their number), and its value.
std::string frames_key(const ClipFormat& format);
std::string frames_text(const ClipFormat& format);

/// Decodes a complete clip without keeping it. Throws an Error with the name if any part is
/// corrupt.
void verify_clip(std::span<const std::byte> bytes, const std::string& name);

/// Throws an Error with the missing frames if the clip is too short for a sample.
void check_length(const ClipSize& clip, const std::string& name, const ClipFormat& format);

/// A clip's pixels, f32 [3, num_frames, height, width] in [-1, 1], by fit_frames. Throws an Error
/// with the path if the clip cannot be decoded or is too short.
HostArray read_clip(const std::filesystem::path& path, const ClipFormat& format,
                    const ClipWindow& window = {});

/// The same from a file's bytes, with the name `name` in messages.
HostArray read_clip(std::span<const std::byte> bytes, const std::string& name,
                    const ClipFormat& format, const ClipWindow& window = {});

/// A mask picture as in ClipSet::read_mask, for a clip of this size.
HostArray read_mask(std::span<const std::byte> bytes, const std::string& name, const ClipSize& clip,
                    const ClipFormat& format, const ClipWindow& window);

/// A picture's alpha channel as such a mask; without bytes for a picture without transparent
/// parts, and for a video.
HostArray read_alpha_mask(std::span<const std::byte> bytes, const std::string& name,
                          const ClipFormat& format, const ClipWindow& window);

/// How pictures are resized: scaled so that they cover the size, then cropped.
struct Fit {
  int64_t height = 0;  // after scaling
  int64_t width = 0;
  int64_t top = 0;  // of the crop
  int64_t left = 0;
};
/// For a picture with these displayed sides. The crop is at the fraction `crop` of the spare
/// columns or rows, from 0 (left or top edge) to 1; without it, in the middle.
Fit fit_to_size(double shown_height, double shown_width, int64_t height, int64_t width,
                std::optional<float> crop = std::nullopt);

/// Frames u8 [f, h, w, 3] scaled to cover height x width (antialiased bilinear) and cropped as in
/// fit_to_size, as f32 [3, f, height, width] in [-1, 1]. `pixel_aspect` is the displayed width over
/// height of an input pixel; output pixels are square.
HostArray fit_frames(const HostArray& frames, int64_t height, int64_t width,
                     std::optional<float> crop = std::nullopt, double pixel_aspect = 1);

}  // namespace kinema::data
