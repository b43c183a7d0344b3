#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/data/clip_set.h"

/// One clip's bytes: a video in any container that io reads or, as a clip of one frame, an image.
namespace kinema::data {

/// Size, frames and rate of a clip's bytes, which messages call `name`. Throws an Error for what is
/// neither video nor image.
ClipSize measure_clip(std::span<const std::byte> bytes, const std::string& name);

/// How many frames a clip has in a format: the file's own or, at a rate of the format's, one each
/// 1 / fps seconds for as long as it lasts.
int64_t frames_in(const ClipSize& clip, const ClipFormat& format);
/// How many of them a sample takes up.
int64_t frames_needed(const ClipFormat& format);

/// Which frames a format takes, apart from how many: the key that says so, and its value.
std::string frames_key(const ClipFormat& format);
std::string frames_text(const ClipFormat& format);

/// Decodes all of a clip and keeps nothing. Throws an Error that names one with damage anywhere.
void verify_clip(std::span<const std::byte> bytes, const std::string& name);

/// Throws an Error that says what is missing when the clip is too short for a sample.
void check_length(const ClipSize& clip, const std::string& name, const ClipFormat& format);

/// A clip's pixels, f32 [3, num_frames, height, width] in [-1, 1], by fit_frames. Throws an Error
/// with the path for a clip that cannot be decoded or is too short.
HostArray read_clip(const std::filesystem::path& path, const ClipFormat& format,
                    const ClipWindow& window = {});

/// The same from a file's bytes, which messages call `name`.
HostArray read_clip(std::span<const std::byte> bytes, const std::string& name,
                    const ClipFormat& format, const ClipWindow& window = {});

/// How pictures are brought to another size: scaled so that they cover it, and cut.
struct Fit {
  int64_t height = 0;  // when scaled
  int64_t width = 0;
  int64_t top = 0;  // of what is kept
  int64_t left = 0;
};
/// For a picture of these sides as it is shown. What is kept lies at `crop` of the columns or rows
/// to spare, from 0 (the left and top edge) to 1; without one, in the middle.
Fit fit_of(double shown_height, double shown_width, int64_t height, int64_t width,
           std::optional<float> crop = std::nullopt);

/// Frames u8 [f, h, w, 3] scaled to cover height x width (antialiased bilinear) and cropped as
/// fit_of says, as f32 [3, f, height, width] in [-1, 1]. `pixel_aspect` is width over height of a
/// given pixel as it is to be shown: what comes out has square ones.
HostArray fit_frames(const HostArray& frames, int64_t height, int64_t width,
                     std::optional<float> crop = std::nullopt, double pixel_aspect = 1);

}  // namespace kinema::data
