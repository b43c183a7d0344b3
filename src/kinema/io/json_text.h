#pragma once

#include <string>

namespace kinema::io {

/// A value of any shape that is kept as JSON text until the room that understands it parses it.
struct JsonText {
  std::string json = "null";  ///< one line, as Json::dump(-1) writes it
  bool operator==(const JsonText&) const = default;
};

}  // namespace kinema::io
