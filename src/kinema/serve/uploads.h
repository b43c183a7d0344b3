#pragma once

// Private to the module.

#include <string_view>

#include "kinema/http/message.h"
#include "kinema/serve/looks.h"
#include "kinema/serve/store.h"

namespace kinema::serve {

/// Stores a received picture or video under the SHA-256 of its bytes. Only a picture's header is
/// read in this process: `looks` reads videos in another one. Throws an http::Refusal of status 415
/// if it is no PNG, JPEG, WebP or MP4, 422 if it is malformed, an animation, has more than 4096
/// pixels a side or more than 4096 frames.
UploadRecord store_upload(Store& store, Looks& looks, http::ReceivedFile& file);
/// The same for bytes.
UploadRecord store_upload(Store& store, Looks& looks, std::string_view bytes);

}  // namespace kinema::serve
