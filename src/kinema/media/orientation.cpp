#include "kinema/media/orientation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kinema/media/png_chunk.h"

namespace kinema::media {
namespace {

HostArray turned_once(const HostArray& frames) {
  const int64_t count = frames.shape.dims[0];
  const int64_t height = frames.shape.dims[1];
  const int64_t width = frames.shape.dims[2];
  HostArray out(Shape{DType::U8, {count, width, height, 3}});
  const std::byte* from = frames.bytes.data();
  for (int64_t f = 0; f < count; ++f) {
    std::byte* frame = out.bytes.data() + f * height * width * 3;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x, from += 3) {
        std::memcpy(frame + (x * height + height - 1 - y) * 3, from, 3);
      }
    }
  }
  return out;
}

// Exchanges left and right.
HostArray mirrored(const HostArray& frames) {
  HostArray out(frames.shape);
  const int64_t width = frames.shape.dims[2];
  const int64_t rows = frames.shape.dims[0] * frames.shape.dims[1];
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      std::memcpy(out.bytes.data() + (y * width + width - 1 - x) * 3,
                  frames.bytes.data() + (y * width + x) * 3, 3);
    }
  }
  return out;
}

// Numbers of a TIFF structure, in its byte order.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool holds(uint64_t at, uint64_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  bool is(uint64_t at, const char* text, uint64_t size) const {
    return holds(at, size) && std::memcmp(bytes_.data() + at, text, size) == 0;
  }
  void big_endian(bool value) { big_endian_ = value; }
  uint32_t number(uint64_t at, int size) const {
    uint32_t value = 0;
    for (int i = 0; i < size; ++i) {
      const int byte = big_endian_ ? i : size - 1 - i;
      value = value << 8 | std::to_integer<uint32_t>(bytes_[at + static_cast<uint64_t>(byte)]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_ = false;
};

HostArray turned(HostArray frames, int turns) {
  for (; turns > 0; --turns) {
    frames = turned_once(frames);
  }
  return frames;
}

}  // namespace

HostArray upright(HostArray frames, int orientation) {
  constexpr int kTurns[] = {0, 0, 0, 2, 2, 3, 1, 1, 3};
  constexpr bool kMirrored[] = {false, false, true, false, true, true, false, true, false};
  if (orientation < 1 || orientation > 8) {
    return frames;
  }
  if (kMirrored[orientation]) {
    frames = mirrored(frames);
  }
  return turned(std::move(frames), kTurns[orientation]);
}

int matrix_orientation(double a, double b, double c, double d) {
  if (std::abs(a) + std::abs(d) >= std::abs(b) + std::abs(c)) {
    return a >= 0 ? (d >= 0 ? 1 : 4) : (d >= 0 ? 2 : 3);
  }
  return b >= 0 ? (c >= 0 ? 5 : 6) : (c >= 0 ? 8 : 7);
}

int png_orientation(std::span<const std::byte> file) {
  if (const int exif = exif_orientation(png_chunk(file, "eXIf")); exif != 0) {
    return exif;
  }
  // iTXt: keyword, compression flag and method, language, translated keyword, each text ended by 0.
  constexpr std::string_view kKeyword{"XML:com.adobe.xmp\0\0\0\0\0", 22};
  const std::span<const std::byte> text = png_chunk(file, "iTXt");
  const bool is_xmp = text.size() > kKeyword.size() &&
                      std::memcmp(text.data(), kKeyword.data(), kKeyword.size()) == 0;
  return is_xmp ? std::max(1, xmp_orientation(text.subspan(kKeyword.size()))) : 1;
}

int xmp_orientation(std::span<const std::byte> packet) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(packet.data()), packet.size());
  const size_t name = text.find(kName);
  if (name == std::string_view::npos) {
    return 0;
  }
  // An attribute, tiff:Orientation="6", or an element, <tiff:Orientation>6<.
  std::string_view rest = text.substr(name + kName.size());
  for (const std::string_view begin : {"=\"", "='", ">"}) {
    if (rest.starts_with(begin) && rest.size() > begin.size()) {
      const char digit = rest[begin.size()];
      return digit >= '1' && digit <= '8' ? digit - '0' : 0;
    }
  }
  return 0;
}

int exif_orientation(std::span<const std::byte> block) {
  constexpr uint64_t kHeader = 8;  // byte order, 42, offset of the first directory
  constexpr uint64_t kEntry = 12;  // tag, type, count, value
  constexpr uint32_t kOrientation = 0x0112;
  constexpr uint32_t kShort = 3;
  constexpr uint32_t kLong = 4;  // not allowed here, but read by other programs
  Tiff tiff(block);
  if (!tiff.holds(0, kHeader) || !(tiff.is(0, "II", 2) || tiff.is(0, "MM", 2))) {
    return 0;
  }
  tiff.big_endian(tiff.is(0, "MM", 2));
  const uint64_t directory = tiff.number(4, 4);
  if (!tiff.holds(directory, 2)) {
    return 0;
  }
  const uint32_t entries = tiff.number(directory, 2);
  for (uint64_t i = 0; i < entries && tiff.holds(directory + 2 + i * kEntry, kEntry); ++i) {
    const uint64_t at = directory + 2 + i * kEntry;
    const uint32_t type = tiff.number(at + 2, 2);
    if (tiff.number(at, 2) == kOrientation && (type == kShort || type == kLong)) {
      const uint32_t value = tiff.number(at + 8, type == kShort ? 2 : 4);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return 0;
}

}  // namespace kinema::media
