#pragma once

// Private to the module.

#include <string_view>

#include "kinema/http/message.h"
#include "kinema/serve/store.h"

namespace kinema::serve {

/// Stores a received picture under the SHA-256 of its bytes. Only its header is read: nothing is
/// decoded in this process. Throws an http::Refusal of status 415 if it is no PNG, JPEG or WebP,
/// 422 if it is malformed, an animation or has more than 4096 pixels a side.
UploadRecord store_upload(Store& store, http::ReceivedFile& file);
/// The same for bytes.
UploadRecord store_upload(Store& store, std::string_view bytes);

}  // namespace kinema::serve
