#pragma once

// Private to the module: decoding of videos and images through libav.

#include <cstddef>
#include <span>
#include <string>

#include "kinema/media/video.h"

namespace kinema::media {

/// Decodes the first video stream of the bytes, with the name `name` in messages; `formats` lists
/// the demuxers to try (never playlists, which would open other files).
Video decode(std::span<const std::byte> bytes, const std::string& name, const char* formats,
             const ReadVideoOptions& options);

}  // namespace kinema::media
