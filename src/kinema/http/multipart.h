#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kinema::http {

/// A part of a `multipart/form-data` body.
struct FormPart {
  std::string name;
  std::string file_name;     // as the client names it: never a path to open; empty: a plain field
  std::string type;          // its media type without parameters, in lower case; empty: none
  std::string_view content;  // within the body
};

/// Reads a body of the given `Content-Type` field (RFC 7578). The parts refer to `body`. Throws an
/// Error for another type, a missing or overlong boundary, more than 256 parts, part headers over 8
/// KiB, a part without a name, and a body that ends early.
std::vector<FormPart> read_multipart(std::string_view content_type, std::string_view body);

}  // namespace kinema::http
