#pragma once

// Private to the room: decoding of videos and images through libav.

#include <cstddef>
#include <span>
#include <string>

#include "kinema/media/video.h"

namespace kinema::media {

/// Decodes the first video stream of the bytes, which messages call `name`; `formats` lists the
/// demuxers that may be tried (playlists, which would open other files, are never among them).
Video decode(std::span<const std::byte> bytes, const std::string& name, const char* formats,
             const ReadVideoOptions& options);

}  // namespace kinema::media
