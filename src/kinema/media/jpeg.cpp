#include "kinema/media/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

#include "kinema/core/error.h"
#include "kinema/media/cmyk.h"
#include "kinema/media/orientation.h"

namespace kinema::media {
namespace {

// libjpeg reports errors by a function that must not return: a longjmp over its own stack frames
// back to the setjmp in step(). Objects with destructors are outside of that call.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, int64_t max_pixels)
      : bytes_(bytes), max_pixels_(max_pixels) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { self(info).leave(info); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      // Pillow rejects truncated files, for which libjpeg only warns and fills in grey.
      const int code = info->err->msg_code;
      if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) {
        self(info).leave(info);
      }
    };
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = [](j_common_ptr info) {
      // Each scan of a progressive file needs a pass over the whole picture.
      const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
      if (decompress->input_scan_number > kMaxScans) {
        self(info).fail_with("it has more scans than any encoder makes");
      }
    };
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { jpeg_destroy_decompress(&info_); }

  void run_header() {
    check(step(&Reader::read_header), "{}", reason_);
    width_ = info_.output_width;
    height_ = info_.output_height;
  }

  void run() {
    run_header();
    check(static_cast<int64_t>(width_) * height_ <= max_pixels_,
          "it has {} x {} pixels (height x width), at most {} are read", height_, width_,
          max_pixels_);
    stored_.resize(static_cast<size_t>(width_) * height_ * info_.output_components);
    check(step(&Reader::read_rows), "{}", reason_);
  }

  HostArray picture() const {
    HostArray out(Shape{DType::U8, {1, height_, width_, 3}});
    auto* to = reinterpret_cast<uint8_t*>(out.bytes.data());
    if (info_.out_color_space == JCS_RGB) {
      std::memcpy(to, stored_.data(), stored_.size());
      return out;
    }
    // CMYK is stored inverted, as by Adobe.
    for (size_t i = 0; i < stored_.size(); i += 4, to += 3) {
      for (size_t c = 0; c < 3; ++c) {
        to[c] = from_inks(255 - stored_[i + c], 255 - stored_[i + 3]);
      }
    }
    return out;
  }

  int orientation() const { return orientation_; }
  /// Height and width as stored.
  ImageSize size() const {
    return {.height = height_, .width = width_, .has_alpha = false, .is_hdr = false};
  }

 private:
  static constexpr int kMaxScans = 500;

  /// Calls a function that may longjmp; returns false if it did.
  bool step(void (Reader::*part)()) {
    if (setjmp(out_) == 0) {
      (this->*part)();
      return true;
    }
    return false;
  }

  static Reader& self(j_common_ptr info) { return *static_cast<Reader*>(info->client_data); }

  int stated_orientation() const {
    constexpr std::string_view kExif{"Exif\0\0", 6};
    constexpr std::string_view kXmp{"http://ns.adobe.com/xap/1.0/\0", 29};
    int exif = 0;
    int xmp = 0;
    for (const jpeg_marker_struct* marker = info_.marker_list; marker != nullptr;
         marker = marker->next) {
      const std::span data(reinterpret_cast<const std::byte*>(marker->data), marker->data_length);
      const auto begins = [&](std::string_view with) {
        return marker->marker == JPEG_APP0 + 1 && data.size() >= with.size() &&
               std::memcmp(data.data(), with.data(), with.size()) == 0;
      };
      if (exif == 0 && begins(kExif)) {
        exif = exif_orientation(data.subspan(kExif.size()));
      } else if (xmp == 0 && begins(kXmp)) {
        xmp = xmp_orientation(data.subspan(kXmp.size()));
      }
    }
    return exif != 0 ? exif : std::max(1, xmp);
  }

  void read_header() {
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()),
                 static_cast<unsigned long>(bytes_.size()));
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&info_, TRUE);
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg_calc_output_dimensions(&info_);
    orientation_ = stated_orientation();  // finishing frees the markers
  }

  void read_rows() {
    jpeg_start_decompress(&info_);
    const size_t row = static_cast<size_t>(width_) * static_cast<size_t>(info_.output_components);
    while (info_.output_scanline < height_) {
      JSAMPROW line = stored_.data() + info_.output_scanline * row;
      jpeg_read_scanlines(&info_, &line, 1);
    }
    jpeg_finish_decompress(&info_);
  }

  [[noreturn]] void leave(j_common_ptr info) {
    info->err->format_message(info, reason_);
    std::longjmp(out_, 1);
  }
  [[noreturn]] void fail_with(const char* reason) {
    std::snprintf(reason_, sizeof(reason_), "%s", reason);
    std::longjmp(out_, 1);
  }

  std::span<const std::byte> bytes_;
  int64_t max_pixels_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf out_{};
  char reason_[JMSG_LENGTH_MAX] = "";
  JDIMENSION width_ = 0;
  JDIMENSION height_ = 0;
  int orientation_ = 1;
  std::vector<uint8_t> stored_;
};

}  // namespace

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8} &&
         bytes[2] == std::byte{0xff};
}

ImageSize jpeg_size(std::span<const std::byte> bytes) {
  Reader reader(bytes, 0);
  reader.run_header();
  ImageSize out = reader.size();
  if (lies_on_its_side(reader.orientation())) {
    std::swap(out.height, out.width);
  }
  return out;
}

HostArray decode_jpeg(std::span<const std::byte> bytes, int64_t max_pixels) {
  Reader reader(bytes, max_pixels);
  reader.run();
  return upright(reader.picture(), reader.orientation());
}

}  // namespace kinema::media
