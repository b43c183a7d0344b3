#include "kinema/media/png_text.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/media/exif.h"
#include "kinema/media/jpeg.h"
#include "kinema/media/webp.h"

// Chunks of ISO/IEC 15948: length, type, data, checksum of type and data.
namespace kinema::media {
namespace {

constexpr std::array<unsigned char, 8> kSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr size_t kWord = 4;

uint32_t u32_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t out = 0;
  for (const std::byte each : bytes.subspan(at, kWord)) {
    out = out << 8U | std::to_integer<uint32_t>(each);
  }
  return out;
}

/// Removes a zero-terminated text from the front; nothing without a zero.
std::optional<std::string_view> take_text(std::string_view& data) {
  const size_t end = data.find('\0');
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view out = data.substr(0, end);
  data.remove_prefix(end + 1);
  return out;
}

std::string utf8_of_latin1(std::string_view text) {
  std::string out;
  for (const char each : text) {
    const auto code = static_cast<unsigned char>(each);
    if (code < 0x80) {
      out += each;
    } else {
      out += static_cast<char>(0xC0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return out;
}

/// Nothing if it is corrupt, or longer than any text of settings.
std::optional<std::string> inflated(std::string_view data) {
  constexpr size_t kMost = size_t{16} << 20U;
  std::string out;
  for (size_t room = 1 << 14; room <= kMost; room *= 4) {
    out.resize(room);
    auto size = static_cast<uLongf>(room);
    const int status =
        uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                   reinterpret_cast<const Bytef*>(data.data()), static_cast<uLong>(data.size()));
    if (status == Z_OK) {
      out.resize(size);
      return out;
    }
    if (status != Z_BUF_ERROR) {
      break;
    }
  }
  return std::nullopt;
}

/// The text of a chunk `iTXt` or `tEXt`; nothing without a keyword.
std::optional<PngText> text_of(std::string_view type, std::string_view data) {
  const auto keyword = take_text(data);
  if (!keyword) {
    return std::nullopt;
  }
  if (type == "tEXt") {
    return PngText{.keyword = std::string(*keyword), .text = utf8_of_latin1(data)};
  }
  constexpr size_t kFlags = 2;  // compression flag and method
  if (data.size() < kFlags) {
    return std::nullopt;
  }
  const bool is_compressed = data[0] != '\0';
  data.remove_prefix(kFlags);
  if (!take_text(data) || !take_text(data)) {  // the language, and the translated keyword
    return std::nullopt;
  }
  const auto text = is_compressed ? inflated(data) : std::string(data);
  return text ? std::optional(PngText{.keyword = std::string(*keyword), .text = *text})
              : std::nullopt;
}

}  // namespace

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= kSignature.size() &&
         std::ranges::equal(bytes.first(kSignature.size()), std::as_bytes(std::span(kSignature)));
}

std::vector<PngText> read_png_texts(std::span<const std::byte> bytes, const std::string& name) {
  check(is_png(bytes), "[image] {} is not a PNG", name);
  std::vector<PngText> out;
  for (size_t at = kSignature.size();;) {
    const size_t left = bytes.size() - at;
    check(left >= 3 * kWord, "[image] {} is cut off: it has no last chunk", name);
    const size_t length = u32_at(bytes, at);
    check(length <= left - 3 * kWord,
          "[image] {} is cut off: a chunk of {} bytes starts at {}, but {} are left", name, length,
          at, left - 3 * kWord);
    const std::span<const std::byte> chunk = bytes.subspan(at + kWord, kWord + length);
    const std::string_view text(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    const std::string_view type = text.substr(0, kWord);
    if (type == "IEND") {
      return out;
    }
    if (type == "iTXt" || type == "tEXt") {
      const uint32_t sum = static_cast<uint32_t>(
          crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size())));
      check(sum == u32_at(bytes, at + 2 * kWord + length),
            "[image] {} is corrupt: the text at byte {} has another checksum", name, at);
      if (auto found = text_of(type, text.substr(kWord))) {
        out.push_back(std::move(*found));
      }
    }
    at += 3 * kWord + length;
  }
}

std::vector<PngText> read_image_texts(std::span<const std::byte> bytes, const std::string& name) {
  if (is_jpeg(bytes) || is_webp(bytes)) {
    return texts_of_exif(find_exif(bytes));
  }
  check(is_png(bytes), "[image] {} is not a PNG, JPEG or WebP", name);
  return read_png_texts(bytes, name);
}

}  // namespace kinema::media
