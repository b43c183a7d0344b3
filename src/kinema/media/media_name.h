#pragma once

#include <string>

namespace kinema::media {

/// By the extension, whatever its case. Bytes decide how a file is read; names, which files of a
/// folder are meant.
bool is_video_name(const std::string& name);
bool is_image_name(const std::string& name);

/// `HEIC` or `JPEG XL` where a name says such a picture, which is not read; empty for other names.
std::string unread_image_name(const std::string& name);

}  // namespace kinema::media
