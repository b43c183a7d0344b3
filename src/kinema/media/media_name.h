#pragma once

#include <string>

namespace kinema::media {

/// By the extension, in any case. A file is read by its bytes; names select the files of a folder.
bool is_video_name(const std::string& name);
bool is_image_name(const std::string& name);

/// `HEIC`, `JPEG 2000`, ... for names of pictures in formats that are not supported; empty for
/// other names.
std::string unread_image_name(const std::string& name);

}  // namespace kinema::media
