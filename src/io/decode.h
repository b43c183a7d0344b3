#pragma once

// Private to the room: decoding of videos and images through libav.

#include <functional>
#include <string>

#include "io/mapped_file.h"
#include "io/video.h"

namespace kinema::io {

/// Decodes the first video stream of the bytes; `formats` lists the demuxers that may be tried
/// (playlists, which would open other files, are never among them).
Video decode(const MappedFile& file, const char* formats, const ReadVideoOptions& options);

}  // namespace kinema::io
