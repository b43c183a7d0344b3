#include "kinema/io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kinema/core/error.h"

namespace kinema::io {
namespace {

// zlib's decoder, freed on all paths.
struct Inflater {
  z_stream stream{};

  Inflater() {
    // 15 bits of window, plus 16: gzip framing.
    check(inflateInit2(&stream, 15 + 16) == Z_OK, "[gzip] out of memory");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip(std::span<const std::byte> bytes, const std::string& source,
                              size_t limit) {
  Inflater inflater;
  z_stream& z = inflater.stream;
  std::vector<std::byte> out;
  std::array<std::byte, 1 << 16> piece;
  size_t taken = 0;
  for (;;) {
    if (z.avail_in == 0) {
      const size_t n = std::min<size_t>(bytes.size() - taken, std::numeric_limits<uInt>::max());
      z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + taken));
      z.avail_in = static_cast<uInt>(n);
      taken += n;
    }
    z.next_out = reinterpret_cast<Bytef*>(piece.data());
    z.avail_out = piece.size();
    const int result = inflate(&z, Z_NO_FLUSH);
    const size_t made = piece.size() - z.avail_out;
    check(made <= limit - out.size(), "[gzip] {} holds more than {} bytes", source, limit);
    out.insert(out.end(), piece.begin(), piece.begin() + static_cast<int64_t>(made));
    if (result == Z_STREAM_END) {
      if (z.avail_in == 0 && taken == bytes.size()) {
        return out;
      }
      check(inflateReset(&z) == Z_OK, "[gzip] {} cannot be decompressed", source);
      continue;
    }
    check(result == Z_OK, "[gzip] {} is corrupt or truncated: {}", source,
          z.msg != nullptr ? z.msg : "it ends too early");
    check(made > 0 || z.avail_in > 0 || taken < bytes.size(), "[gzip] {} is truncated", source);
  }
}

std::string gzip(std::string_view bytes) {
  check(bytes.size() <= std::numeric_limits<uInt>::max() / 2, "[gzip] {} bytes are too many",
        bytes.size());
  z_stream z{};
  check(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
        "[gzip] out of memory");
  std::string out(deflateBound(&z, static_cast<uLong>(bytes.size())), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  check(result == Z_STREAM_END, "[gzip] {} bytes cannot be compressed", bytes.size());
  return out;
}

}  // namespace kinema::io
