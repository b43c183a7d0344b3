#include "kinema/media/exif.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

// Exif is a TIFF structure (CIPA DC-008): a header, then lists of entries of 12 bytes, each with
// tag, type, count, and the value or where it lies.
namespace kinema::media {
namespace {

constexpr uint16_t kImageDescription = 0x010E;
constexpr uint16_t kExifList = 0x8769;
constexpr uint16_t kUserComment = 0x9286;
constexpr uint16_t kAscii = 2;
constexpr uint16_t kLong = 4;
constexpr uint16_t kUndefined = 7;
constexpr std::string_view kUnicode{"UNICODE\0", 8};

struct ExifEntry {
  uint16_t tag = 0;
  uint16_t type = 0;
  std::string value;
};

void append_number(std::string& to, uint64_t value, int bytes, bool big_endian = true) {
  for (int i = 0; i < bytes; ++i) {
    to += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)));
  }
}

/// A list at `at`, with the values that do not fit into entries behind it.
std::string list_of(const std::vector<ExifEntry>& entries, size_t at) {
  std::string out;
  std::string values;
  const size_t behind = at + 2 + entries.size() * 12 + 4;
  append_number(out, entries.size(), 2);
  for (const ExifEntry& entry : entries) {
    append_number(out, entry.tag, 2);
    append_number(out, entry.type, 2);
    append_number(out, entry.type == kLong ? 1 : entry.value.size(), 4);
    if (entry.value.size() <= 4) {
      out += entry.value + std::string(4 - entry.value.size(), '\0');
    } else {
      append_number(out, behind + values.size(), 4);
      values += entry.value + std::string(entry.value.size() % 2, '\0');
    }
  }
  append_number(out, 0, 4);  // no other list
  return out + values;
}

/// UTF-16, big-endian; bytes that are no UTF-8 become U+FFFD.
std::string utf16_of(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t more = first < 0x80   ? 0
                        : first < 0xC0 ? 9
                        : first < 0xE0 ? 1
                        : first < 0xF0 ? 2
                                       : 3;
    uint32_t code = more == 0 ? first : first & (0x3FU >> more);
    bool is_whole = more <= 3 && i + more < text.size();
    for (size_t k = 1; is_whole && k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      is_whole = (next & 0xC0U) == 0x80;
      code = code << 6U | (next & 0x3FU);
    }
    i += is_whole ? more + 1 : 1;
    code = is_whole && code <= 0x10FFFF ? code : 0xFFFD;
    if (code >= 0x10000) {
      append_number(out, 0xD800 + ((code - 0x10000) >> 10U), 2);
      code = 0xDC00 + ((code - 0x10000) & 0x3FFU);
    }
    append_number(out, code, 2);
  }
  return out;
}

/// Numbers and bytes of a TIFF structure of anyone's.
class ExifReader {
 public:
  explicit ExifReader(std::span<const std::byte> bytes)
      : bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        big_endian_(bytes_.starts_with("MM")) {}

  bool is_tiff() const {
    return bytes_.size() >= 8 && (big_endian_ || bytes_.starts_with("II")) && number(2, 2) == 42;
  }
  bool is_big_endian() const { return big_endian_; }
  /// 0 outside.
  uint32_t number(size_t at, int size) const {
    uint32_t out = 0;
    for (int i = 0; i < size; ++i) {
      const size_t place = at + static_cast<size_t>(big_endian_ ? i : size - 1 - i);
      out = out << 8U | (place < bytes_.size() ? static_cast<unsigned char>(bytes_[place]) : 0U);
    }
    return out;
  }
  /// The place of the entry with this tag in the list at `at`; 0: none.
  size_t find(size_t at, uint16_t tag) const {
    const uint32_t count = number(at, 2);
    for (uint32_t i = 0; i < count && at + 2 + (i + 1) * 12 <= bytes_.size(); ++i) {
      if (number(at + 2 + i * 12, 2) == tag) {
        return at + 2 + i * 12;
      }
    }
    return 0;
  }
  /// The bytes of an entry whose elements have one byte; empty if they lie outside.
  std::string_view value(size_t entry) const {
    const uint32_t size = number(entry + 4, 4);
    const size_t at = size <= 4 ? entry + 8 : number(entry + 8, 4);
    return entry == 0 || at > bytes_.size() || size > bytes_.size() - at ? std::string_view()
                                                                         : bytes_.substr(at, size);
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

std::string utf8_of(std::string_view utf16, bool big_endian) {
  const auto unit = [&](size_t i) {
    const auto a = static_cast<unsigned char>(utf16[i]);
    const auto b = static_cast<unsigned char>(utf16[i + 1]);
    return big_endian ? uint32_t{a} << 8U | b : uint32_t{b} << 8U | a;
  };
  std::string out;
  for (size_t i = 0; i + 2 <= utf16.size(); i += 2) {
    uint32_t code = unit(i);
    if (code >= 0xD800 && code < 0xE000) {
      const bool is_pair =
          code < 0xDC00 && i + 4 <= utf16.size() && unit(i + 2) >= 0xDC00 && unit(i + 2) < 0xE000;
      code = is_pair ? 0x10000 + ((code - 0xD800) << 10U) + (unit(i + 2) - 0xDC00) : 0xFFFD;
      i += is_pair ? 2 : 0;
    }
    if (code < 0x80) {
      out += static_cast<char>(code);
      continue;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr unsigned kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kFirst[more] | code >> (6 * more));
    for (int k = more - 1; k >= 0; --k) {
      out += static_cast<char>(0x80U | (code >> (6 * k) & 0x3FU));
    }
  }
  return out;
}

std::span<const std::byte> find_in_jpeg(std::span<const std::byte> file) {
  const auto at = [&](size_t i) { return std::to_integer<size_t>(file[i]); };
  for (size_t i = 2; i + 4 <= file.size() && at(i) == 0xFF && at(i + 1) != 0xDA;) {
    const size_t size = at(i + 2) << 8U | at(i + 3);
    if (size < 2 || size > file.size() - i - 2) {
      break;
    }
    if (at(i + 1) == 0xE1 && size >= 8 && std::memcmp(&file[i + 4], "Exif\0\0", 6) == 0) {
      return file.subspan(i + 10, size - 8);
    }
    i += 2 + size;
  }
  return {};
}

std::span<const std::byte> find_in_webp(std::span<const std::byte> file) {
  for (size_t i = 12; i + 8 <= file.size();) {
    size_t size = 0;
    for (int k = 3; k >= 0; --k) {
      size = size << 8U | std::to_integer<size_t>(file[i + 4 + static_cast<size_t>(k)]);
    }
    if (size > file.size() - i - 8) {
      break;
    }
    if (std::memcmp(&file[i], "EXIF", 4) == 0) {
      const auto exif = file.subspan(i + 8, size);
      const bool has_mark = size >= 6 && std::memcmp(exif.data(), "Exif\0\0", 6) == 0;
      return has_mark ? exif.subspan(6) : exif;
    }
    i += 8 + size + size % 2;
  }
  return {};
}

}  // namespace

std::string exif_of(std::span<const PngText> texts) {
  std::vector<ExifEntry> entries;
  std::vector<ExifEntry> inner;
  for (const PngText& text : texts) {
    if (text.keyword == "kinema") {
      entries.push_back({kImageDescription, kAscii, text.text + '\0'});
    } else if (text.keyword == "parameters") {
      inner.push_back({kUserComment, kUndefined, std::string(kUnicode) + utf16_of(text.text)});
    }
  }
  if (entries.empty() && inner.empty()) {
    return "";
  }
  constexpr size_t kHeader = 8;
  if (!inner.empty()) {
    entries.push_back({kExifList, kLong, std::string(4, '\0')});
    std::string place;
    append_number(place, kHeader + list_of(entries, kHeader).size(), 4);
    entries.back().value = place;
  }
  std::string out("MM\0*\0\0\0\x08", kHeader);
  out += list_of(entries, kHeader);
  return inner.empty() ? out : out + list_of(inner, out.size());
}

std::vector<PngText> texts_of_exif(std::span<const std::byte> exif) {
  std::vector<PngText> out;
  const ExifReader tiff(exif);
  if (!tiff.is_tiff()) {
    return out;
  }
  const size_t list = tiff.number(4, 4);
  if (const std::string_view own = tiff.value(tiff.find(list, kImageDescription));
      own.starts_with('{')) {
    out.push_back({.keyword = "kinema", .text = std::string(own.substr(0, own.find('\0')))});
  }
  if (const size_t inner = tiff.find(list, kExifList); inner != 0) {
    const std::string_view comment = tiff.value(tiff.find(tiff.number(inner + 8, 4), kUserComment));
    if (comment.starts_with(kUnicode)) {
      out.push_back({.keyword = "parameters",
                     .text = utf8_of(comment.substr(kUnicode.size()), tiff.is_big_endian())});
    }
  }
  return out;
}

std::span<const std::byte> find_exif(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("\xff\xd8\xff")) {
    return find_in_jpeg(file);
  }
  return text.starts_with("RIFF") && text.substr(8).starts_with("WEBP")
             ? find_in_webp(file)
             : std::span<const std::byte>();
}

}  // namespace kinema::media
