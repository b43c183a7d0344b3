#pragma once

#include <filesystem>
#include <string_view>

#include "kinema/io/json.h"

namespace kinema::io {

/// A TOML document (v1.0) as a JSON object: tables are objects, arrays of tables arrays, dates and
/// times strings; `inf` and `nan` are null. At most 4 MiB and 64 levels. Throws an Error with
/// source and line for another text; `source` is also the document's name in errors about its
/// values.
Json parse_toml(std::string_view text, std::string_view source);
Json read_toml(const std::filesystem::path& path);

}  // namespace kinema::io
