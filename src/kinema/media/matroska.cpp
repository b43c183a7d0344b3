#include "kinema/media/matroska.h"

#include <bit>
#include <limits>
#include <optional>

namespace kinema::media {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

/// Reads EBML's variable-width numbers.
class Elements {
 public:
  explicit Elements(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t at() const { return at_; }
  void skip(uint64_t bytes) { at_ += bytes; }

  /// Including the bits that mark its width; nothing at the end of the file, or for an invalid
  /// number.
  std::optional<uint64_t> id() { return number(/*keep_marker=*/true); }

  /// kUnknown if all bits are ones.
  std::optional<uint64_t> size() {
    const uint64_t before = at_;
    const std::optional<uint64_t> out = number(/*keep_marker=*/false);
    const uint64_t width = at_ - before;
    return out && *out == (uint64_t{1} << (7 * width)) - 1 ? kUnknown : out;
  }

 private:
  std::optional<uint64_t> number(bool keep_marker) {
    if (at_ >= bytes_.size()) {
      return std::nullopt;
    }
    const auto first = std::to_integer<uint8_t>(bytes_[at_]);
    const auto width = static_cast<uint64_t>(std::countl_zero(first)) + 1;
    if (width > 8 || width > bytes_.size() - at_) {
      return std::nullopt;
    }
    uint64_t out = keep_marker ? first : first & ((1U << (8 - width)) - 1);
    for (uint64_t i = 1; i < width; ++i) {
      out = out << 8 | std::to_integer<uint64_t>(bytes_[at_ + i]);
    }
    at_ += width;
    return out;
  }

  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

}  // namespace

uint64_t matroska_bytes(std::span<const std::byte> file) {
  constexpr uint64_t kHeader = 0x1A45DFA3;
  constexpr uint64_t kSegment = 0x18538067;
  Elements elements(file);
  if (elements.id() != kHeader) {
    return 0;
  }
  const std::optional<uint64_t> header = elements.size();
  if (!header || *header > file.size()) {
    return 0;
  }
  elements.skip(*header);
  if (elements.id() != kSegment) {
    return 0;
  }
  const std::optional<uint64_t> segment = elements.size();
  const bool is_said = segment && *segment != kUnknown && *segment < kUnknown - elements.at();
  return is_said ? elements.at() + *segment : 0;
}

}  // namespace kinema::media
