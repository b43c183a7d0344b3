#pragma once

#include <string>
#include <string_view>

namespace kinema::kernels {

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);
/// Decodes up to the first character that is not a base64 digit.
std::string from_base64(std::string_view text);

}  // namespace kinema::kernels
