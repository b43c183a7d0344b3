#include "kinema/media/tiff.h"

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/media/cmyk.h"
#include "kinema/media/orientation.h"

namespace kinema::media {
namespace {

/// Maximum of libtiff's buffers, and of a tile.
constexpr tmsize_t kMaxBlockBytes = tmsize_t{256} << 20;
/// Maximum per pixel: CMYK or RGBA with 16 bits, or 8 channels with 8; files may claim up to 65,535
/// channels.
constexpr int kMaxPixelBits = 64;

struct Close {
  void operator()(TIFF* file) const { TIFFClose(file); }
};
struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

/// One file in memory.
class File {
 public:
  explicit File(std::span<const std::byte> bytes) : bytes_(bytes) {
    const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
    check(options != nullptr, "out of memory");
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxBlockBytes);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &File::on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &File::on_warning, nullptr);
    // `m`: do not map it, because it is in memory already.
    file_.reset(TIFFClientOpenExt("", "rm", this, &File::read, &File::write, &File::seek,
                                  &File::close, &File::size, nullptr, nullptr, options.get()));
    check(file_ != nullptr, "{}", reason());
    check(value<uint32_t>(TIFFTAG_IMAGEWIDTH, width) &&
              value<uint32_t>(TIFFTAG_IMAGELENGTH, height) && width > 0 && height > 0,
          "its size is missing");
    bits = or_default(TIFFTAG_BITSPERSAMPLE);
    samples = or_default(TIFFTAG_SAMPLESPERPIXEL);
    planes = or_default(TIFFTAG_PLANARCONFIG);
    sample_format = or_default(TIFFTAG_SAMPLEFORMAT);
    orientation = or_default(TIFFTAG_ORIENTATION);
    compression = or_default(TIFFTAG_COMPRESSION);
    check(value<uint16_t>(TIFFTAG_PHOTOMETRIC, photometric),
          "it does not say what its samples mean (PhotometricInterpretation)");
    uint16_t extra = 0;
    const uint16_t* kinds = nullptr;
    if (TIFFGetField(get(), TIFFTAG_EXTRASAMPLES, &extra, &kinds) != 0 && extra > 0) {
      alpha =
          kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA ? kinds[0] : 0;
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  TIFF* get() const { return file_.get(); }
  /// Throws an Error with libtiff's message if a call failed.
  void check_call(bool ok) const { check(ok, "{}", reason()); }

  /// The number of full-size pages, up to 2; makes the first the current one again.
  int full_pages() {
    int pages = 1;
    while (pages < 2 && TIFFReadDirectory(get()) != 0) {
      uint32_t kind = 0;
      TIFFGetFieldDefaulted(get(), TIFFTAG_SUBFILETYPE, &kind);
      pages += (kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) == 0 ? 1 : 0;
    }
    check_call(TIFFSetDirectory(get(), 0) != 0);
    return pages;
  }

  uint32_t width = 0;
  uint32_t height = 0;
  uint16_t bits = 1;
  uint16_t samples = 1;
  uint16_t planes = PLANARCONFIG_CONTIG;
  uint16_t sample_format = SAMPLEFORMAT_UINT;
  uint16_t orientation = 1;
  uint16_t compression = COMPRESSION_NONE;
  uint16_t photometric = 0;
  uint16_t alpha = 0;  // EXTRASAMPLE_...; 0: none

 private:
  template <typename T>
  bool value(uint32_t tag, T& out) const {
    return TIFFGetField(get(), tag, &out) != 0;
  }
  uint16_t or_default(uint32_t tag) const {
    uint16_t out = 0;
    TIFFGetFieldDefaulted(get(), tag, &out);
    return out;
  }
  std::string reason() const { return reason_.empty() ? "it is corrupt or truncated" : reason_; }

  static File& self(thandle_t handle) { return *static_cast<File*>(handle); }
  static tmsize_t read(thandle_t handle, void* out, tmsize_t bytes) {
    File& file = self(handle);
    const uint64_t left =
        file.position_ < file.bytes_.size() ? file.bytes_.size() - file.position_ : 0;
    const auto n = static_cast<tmsize_t>(
        std::min<uint64_t>(left, static_cast<uint64_t>(std::max<tmsize_t>(bytes, 0))));
    if (n > 0) {
      std::memcpy(out, file.bytes_.data() + file.position_, static_cast<size_t>(n));
    }
    file.position_ += static_cast<uint64_t>(n);
    return n;
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return -1; }
  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    File& file = self(handle);
    const uint64_t base = whence == SEEK_SET   ? 0
                          : whence == SEEK_CUR ? file.position_
                                               : file.bytes_.size();
    return file.position_ = base + offset;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return self(handle).bytes_.size(); }

  static int on_error(TIFF*, void* file, const char*, const char* format, va_list values) {
    std::array<char, 300> text{};
    std::vsnprintf(text.data(), text.size(), format, values);
    auto& reason = static_cast<File*>(file)->reason_;
    reason = reason.empty() ? text.data() : reason;  // the first message is the most specific
    return 1;
  }
  static int on_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
  std::string reason_;
  std::unique_ptr<TIFF, Close> file_;
};

/// All samples as stored, [h, w, samples] with 8 or 16 bits, in this machine's byte order.
template <typename T>
std::vector<T> read_samples(const File& file) {
  const size_t width = file.width;
  const size_t height = file.height;
  const bool apart = file.planes == PLANARCONFIG_SEPARATE;
  const size_t at_once = apart ? 1 : file.samples;  // samples that are adjacent in a block
  const uint16_t planes = apart ? file.samples : 1;
  std::vector<T> out(width * height * file.samples);
  // Copies a row of a block to its position.
  const auto put = [&](const T* from, size_t y, size_t x, size_t pixels, uint16_t plane) {
    T* to = out.data() + (y * width + x) * file.samples + plane;
    if (!apart) {
      std::copy_n(from, pixels * file.samples, to);
      return;
    }
    for (size_t i = 0; i < pixels; ++i) {
      to[i * file.samples] = from[i];
    }
  };
  if (TIFFIsTiled(file.get()) != 0) {
    uint32_t tile_width = 0;
    uint32_t tile_height = 0;
    check(TIFFGetField(file.get(), TIFFTAG_TILEWIDTH, &tile_width) != 0 &&
              TIFFGetField(file.get(), TIFFTAG_TILELENGTH, &tile_height) != 0 && tile_width > 0 &&
              tile_height > 0,
          "the size of its tiles is missing");
    const tmsize_t bytes = TIFFTileSize(file.get());
    check(bytes > 0 && bytes <= kMaxBlockBytes &&
              static_cast<uint64_t>(bytes) ==
                  uint64_t{tile_width} * tile_height * at_once * sizeof(T),
          "its tiles are {} x {}", tile_height, tile_width);
    std::vector<T> tile(static_cast<size_t>(bytes) / sizeof(T));
    for (uint16_t plane = 0; plane < planes; ++plane) {
      for (size_t y = 0; y < height; y += tile_height) {
        for (size_t x = 0; x < width; x += tile_width) {
          file.check_call(TIFFReadTile(file.get(), tile.data(), static_cast<uint32_t>(x),
                                       static_cast<uint32_t>(y), 0, plane) == bytes);
          for (size_t row = 0; row < std::min<size_t>(tile_height, height - y); ++row) {
            put(tile.data() + row * tile_width * at_once, y + row, x,
                std::min<size_t>(tile_width, width - x), plane);
          }
        }
      }
    }
    return out;
  }
  std::vector<T> line(width * at_once);
  check(TIFFScanlineSize64(file.get()) == line.size() * sizeof(T), "its rows have another length");
  for (uint16_t plane = 0; plane < planes; ++plane) {
    for (size_t y = 0; y < height; ++y) {
      file.check_call(TIFFReadScanline(file.get(), line.data(), static_cast<uint32_t>(y), plane) ==
                      1);
      put(line.data(), y, 0, width, plane);
    }
  }
  return out;
}

/// Undoes the premultiplication of colours.
template <typename T>
void divide_by_alpha(T* rgba, uint32_t full) {
  for (int c = 0; c < 3 && rgba[3] != 0; ++c) {
    rgba[c] = static_cast<T>(std::min<uint32_t>(full, full * rgba[c] / rgba[3]));
  }
}

uint8_t to_8_bits(uint8_t value) { return value; }
uint8_t to_8_bits(uint16_t value) { return static_cast<uint8_t>((value + 128) / 257); }

/// The colours of a palette, [entries, 3].
std::vector<uint8_t> palette_of(const File& file) {
  std::array<const uint16_t*, 3> map{};
  check(TIFFGetField(file.get(), TIFFTAG_COLORMAP, &map[0], &map[1], &map[2]) != 0,
        "its palette is missing");
  std::vector<uint8_t> out(size_t{256} * 3);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(map[i % 3][i / 3] >> 8);
  }
  return out;
}

/// Samples [h w, n] to RGBA [h w, 4].
template <typename T>
std::vector<T> to_rgba(const File& file, const std::vector<T>& samples) {
  constexpr uint32_t kFull = sizeof(T) == 1 ? 255 : 65535;
  const size_t pixels = size_t{file.width} * file.height;
  const std::vector<uint8_t> palette =
      file.photometric == PHOTOMETRIC_PALETTE ? palette_of(file) : std::vector<uint8_t>();
  const uint16_t colours =
      file.photometric == PHOTOMETRIC_SEPARATED                                      ? 4
      : file.photometric == PHOTOMETRIC_RGB || file.photometric == PHOTOMETRIC_YCBCR ? 3
                                                                                     : 1;
  check(file.samples >= colours, "it has {} channels, {} were expected", file.samples, colours);
  const bool has_alpha = file.alpha != 0 && file.samples > colours;
  std::vector<T> out(pixels * 4);
  for (size_t i = 0; i < pixels; ++i) {
    const T* from = &samples[i * file.samples];
    T* to = &out[i * 4];
    for (size_t c = 0; c < 3; ++c) {
      switch (file.photometric) {
        case PHOTOMETRIC_MINISWHITE:
          to[c] = static_cast<T>(kFull - from[0]);
          break;
        case PHOTOMETRIC_PALETTE:
          to[c] = palette[size_t{to_8_bits(from[0])} * 3 + c];
          break;
        case PHOTOMETRIC_SEPARATED:
          to[c] = static_cast<T>(from_inks(to_8_bits(from[c]), to_8_bits(from[3])) * (kFull / 255));
          break;
        default:
          to[c] = from[colours == 3 ? c : 0];
      }
    }
    to[3] = has_alpha ? from[colours] : static_cast<T>(kFull);
    if (has_alpha && file.alpha == EXTRASAMPLE_ASSOCALPHA) {
      divide_by_alpha(to, kFull);
    }
  }
  return out;
}

/// Uses libtiff's conversion, whose alpha is premultiplied.
std::vector<uint8_t> converted(const File& file) {
  std::array<char, 1024> why{};
  check(TIFFRGBAImageOK(file.get(), why.data()) != 0, "{}", why.data());
  std::vector<uint32_t> raster(size_t{file.width} * file.height);
  // In the stored orientation: it is turned upright later.
  file.check_call(TIFFReadRGBAImageOriented(file.get(), file.width, file.height, raster.data(),
                                            file.orientation, 1) != 0);
  std::vector<uint8_t> out(raster.size() * 4);
  for (size_t i = 0; i < raster.size(); ++i) {
    uint8_t* to = &out[i * 4];
    to[0] = static_cast<uint8_t>(TIFFGetR(raster[i]));
    to[1] = static_cast<uint8_t>(TIFFGetG(raster[i]));
    to[2] = static_cast<uint8_t>(TIFFGetB(raster[i]));
    to[3] = static_cast<uint8_t>(TIFFGetA(raster[i]));
    divide_by_alpha(to, 255);
  }
  return out;
}

bool is_read_here(const File& file) {
  switch (file.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_SEPARATED:
      return file.bits == 8 || file.bits == 16;
    case PHOTOMETRIC_PALETTE:
      return file.bits == 8;
    case PHOTOMETRIC_YCBCR:
      return file.bits == 8 && file.compression == COMPRESSION_JPEG &&
             file.planes == PLANARCONFIG_CONTIG;
    default:
      return false;
  }
}

/// Throws an Error for colours that libtiff converts inaccurately: it ignores the white point of
/// CIELAB, and the exposure of LogLuv.
void check_colours(const File& file) {
  const char* colours = nullptr;
  switch (file.photometric) {
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB:
      colours = "CIELAB";
      break;
    case PHOTOMETRIC_LOGL:
    case PHOTOMETRIC_LOGLUV:
      colours = "LogLuv";
      break;
    default:
      return;
  }
  fail("its colours are {}: save it in sRGB", colours);
}

}  // namespace

bool is_tiff(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::array<std::string_view, 4> kBegins{
      {{"II*\0", 4}, {"MM\0*", 4}, {"II+\0", 4}, {"MM\0+", 4}}};
  return std::ranges::any_of(kBegins,
                             [&](std::string_view each) { return text.starts_with(each); });
}

ImageSize tiff_size(std::span<const std::byte> bytes) {
  const File file(bytes);
  check_colours(file);
  ImageSize out{
      .height = file.height, .width = file.width, .has_alpha = file.alpha != 0, .is_hdr = false};
  if (lies_on_its_side(file.orientation)) {
    std::swap(out.height, out.width);
  }
  return out;
}

HostArray decode_tiff(std::span<const std::byte> bytes, int64_t max_pixels,
                      const Background& background) {
  File file(bytes);
  check(int64_t{file.height} * file.width <= max_pixels,
        "it has {} x {} pixels (height x width), at most {} are read", file.height, file.width,
        max_pixels);
  check(file.sample_format == SAMPLEFORMAT_UINT || file.sample_format == SAMPLEFORMAT_VOID,
        "its samples are not unsigned integers: save it with 8 or 16 bits a channel");
  check(file.samples >= 1 && file.samples * file.bits <= kMaxPixelBits,
        "it has {} channels of {} bits, at most {} bits a pixel are read", file.samples, file.bits,
        kMaxPixelBits);
  check_colours(file);
  check(file.full_pages() == 1, "it holds several pages: save each alone");
  HostArray out(Shape{DType::U8, {1, file.height, file.width, 3}});
  const auto rgb = out.as<uint8_t>();
  if (!is_read_here(file)) {
    put_over(background, std::span<const uint8_t>(converted(file)), rgb);
  } else if (file.bits == 16) {
    put_over(background, std::span<const uint16_t>(to_rgba(file, read_samples<uint16_t>(file))),
             rgb);
  } else {
    if (file.photometric == PHOTOMETRIC_YCBCR) {
      TIFFSetField(file.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    put_over(background, std::span<const uint8_t>(to_rgba(file, read_samples<uint8_t>(file))), rgb);
  }
  return upright(std::move(out), file.orientation);
}

}  // namespace kinema::media
