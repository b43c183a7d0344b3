#include "remote/gcs_object.h"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "remote/repo_cache.h"

namespace kinema::remote {
namespace {

using io::Json;

std::optional<uint32_t> read_crc(const std::string& text) {
  unsigned char bytes[6] = {};
  if (text.size() != 8 ||
      EVP_DecodeBlock(bytes, reinterpret_cast<const unsigned char*>(text.data()), 8) < 4) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | static_cast<uint32_t>(bytes[3]);
}

/// The service writes 64-bit numbers as strings.
int64_t number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr) {
    return 0;
  }
  if (!value->is_string()) {
    return value->as_int();
  }
  const std::string& text = value->as_string();
  int64_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  check(read.ec == std::errc() && read.ptr == text.data() + text.size() && out >= 0,
        "[gs] {} is `{}`, expected a number", value->where(), text.substr(0, 40));
  return out;
}

}  // namespace

std::optional<GsPath> read_gs_path(const std::string& text) {
  constexpr std::string_view kScheme = "gs://";
  if (!text.starts_with(kScheme)) {
    return std::nullopt;
  }
  const std::string rest = text.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  GsPath out{.bucket = rest.substr(0, slash),
             .name = rest.substr(std::min(slash + 1, rest.size()))};
  while (out.name.ends_with('/')) {
    out.name.pop_back();
  }
  const bool plain =
      out.bucket.size() >= 3 && out.bucket.size() <= 222 &&
      std::ranges::all_of(out.bucket, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
      });
  check(plain && (out.name.empty() || is_plain_path(out.name)),
        "[gs] `{}` is no gs://BUCKET/PATH: buckets have 3 to 222 of a-z 0-9 - _ .",
        text.substr(0, 200));
  return out;
}

GcsObject read_object(const Json& json) {
  GcsObject out{.name = json.at("name").as_string(),
                .size = number(json, "size"),
                .generation = number(json, "generation")};
  if (const Json* crc = json.find("crc32c"); crc != nullptr) {
    out.crc32c = read_crc(crc->as_string());
  }
  return out;
}

std::string crc_text(uint32_t crc) {
  const unsigned char bytes[4] = {
      static_cast<unsigned char>(crc >> 24), static_cast<unsigned char>(crc >> 16),
      static_cast<unsigned char>(crc >> 8), static_cast<unsigned char>(crc)};
  unsigned char out[9] = {};
  EVP_EncodeBlock(out, bytes, 4);
  return reinterpret_cast<const char*>(out);
}

}  // namespace kinema::remote
