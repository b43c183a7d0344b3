#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/json.h"

namespace kinema::remote {

/// `gs://BUCKET/NAME`; the name may be empty and has no slash at its end.
struct GsPath {
  std::string bucket;
  std::string name;

  bool operator==(const GsPath&) const = default;
};

/// Reads a gs:// path; nothing for other text. Throws an Error for a bucket name that cannot be.
std::optional<GsPath> read_gs_path(const std::string& text);

struct GcsObject {
  std::string name;
  int64_t size = 0;
  int64_t generation = 0;          // changes with every write
  std::optional<uint32_t> crc32c;  // of the contents
};

/// An object as the service describes it. Throws an Error for a description that is none.
GcsObject read_object(const io::Json& json);

/// Base64 of four big-endian bytes, as the service writes CRCs.
std::string crc_text(uint32_t crc);

}  // namespace kinema::remote
