#pragma once

#include <string>

namespace kinema::io {

/// A value of any type that is stored as JSON text until the module that uses it parses it.
struct JsonText {
  std::string json = "null";  ///< one line, as from Json::dump(-1)
  bool operator==(const JsonText&) const = default;
};

}  // namespace kinema::io
