// Pictures of every supported format: alpha, HDR, AVIF, TIFF. Expected pixels are files in the same
// folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/background.h"
#include "kinema/media/image.h"
#include "kinema/media/media_name.h"
#include "kinema/media/video.h"

namespace kinema::media {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

fs::path folder(const std::string& name) { return io::golden("images/" + name); }

int largest_difference(const HostArray& a, const HostArray& b) {
  EXPECT_EQ(a.shape, b.shape);
  int largest = a.shape == b.shape ? 0 : 256;
  for (size_t i = 0; i < a.bytes.size() && largest < 256; ++i) {
    largest = std::max(largest, std::abs(a.as<uint8_t>()[i] - b.as<uint8_t>()[i]));
  }
  return largest;
}

ImageSize measured(const fs::path& path) {
  const io::MappedFile file = io::MappedFile::open(path);
  return measure_image(file.bytes(), file.path());
}

TEST(Background, IsANameOrAColour) {
  EXPECT_EQ(read_background("white"), Background{});
  EXPECT_EQ(read_background("#20c0Ff").rgb, (std::array<uint8_t, 3>{0x20, 0xc0, 0xff}));
  EXPECT_TRUE(read_background("drop").drop);
  for (const char* word : {"white", "black", "grey", "drop", "#20c0ff"}) {
    EXPECT_EQ(background_name(read_background(word)), word);
  }
  for (const char* word : {"", "#", "#12345", "#1234567", "#12345g", "#-12345", "pink"}) {
    EXPECT_THAT([&] { read_background(word); }, ThrowsMessage<Error>(HasSubstr("#rrggbb or drop")))
        << word;
  }
}

// Files and expected pixels are from Pillow 13 (alpha_composite over an opaque picture); those of
// 16 bits by the formula of put_over, since Pillow does not support such pictures.
TEST(Picture, ShowsTheBackgroundWhereItIsTransparent) {
  for (const std::string name :
       {"rgba.png", "grey_alpha.png", "palette.png", "one_colour.png", "rgba16.png",
        "lossless.webp", "lossy.webp", "picture.avif", "rgba.tiff", "picture.gif"}) {
    const fs::path path = folder("alpha") / name;
    for (const std::string word : {"white", "20c0ff", "drop"}) {
      if (word == "drop" && (name == "rgba16.png" || name == "picture.gif")) {
        continue;  // readers disagree about the pixels under a GIF's transparent colour
      }
      const HostArray read = read_image(path, read_background(word[0] == '2' ? "#" + word : word));
      const HostArray expected = read_image(path.string() + "." + word + ".png");
      EXPECT_EQ(largest_difference(read, expected), 0) << name << " over " << word;
    }
    if (name != "picture.gif") {  // measure_image treats it as a video
      EXPECT_TRUE(measured(path).has_alpha) << name;
    }
  }
  EXPECT_FALSE(measured(folder("alpha/rgba.png.white.png")).has_alpha);
  EXPECT_FALSE(measured(folder("avif/420.avif")).has_alpha);
  EXPECT_FALSE(measured(folder("tiff/rgb.tiff")).has_alpha);
  const Video gif = read_video(folder("alpha/picture.gif"), {.background = {.rgb = {255, 0, 255}}});
  EXPECT_TRUE(gif.has_alpha);
  EXPECT_TRUE(probe_video(folder("alpha/picture.gif")).has_alpha);
}

TEST(Picture, OfAvifAndTiffHasThePixelsThatPillowReads) {
  int files = 0;
  for (const char* name : {"avif", "tiff"}) {
    for (const auto& entry : fs::directory_iterator(folder(name))) {
      const fs::path expected = entry.path().string() + ".png";
      if (entry.path().extension() == ".png" || !fs::exists(expected)) {
        continue;
      }
      const HostArray read = read_image(entry.path());
      EXPECT_EQ(largest_difference(read, read_image(expected)), 0) << entry.path();
      const ImageSize size = measured(entry.path());
      EXPECT_EQ((Dims{size.height, size.width, 3}), read.shape.dims) << entry.path();
      ++files;
    }
  }
  EXPECT_EQ(files, 26);
}

// Orientations in XMP, and in Exif as a LONG; a BMP whose fourth byte is not alpha. Expected pixels
// are Pillow's after ImageOps.exif_transpose.
TEST(Picture, IsUprightAndOpaqueAsPillowHasIt) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder("oriented"))) {
    const fs::path expected = entry.path().string() + ".expected.png";
    if (!fs::exists(expected)) {
      continue;
    }
    const HostArray read = read_image(entry.path());
    EXPECT_LE(largest_difference(read, read_image(expected)), 0) << entry.path();
    const ImageSize size = measured(entry.path());
    EXPECT_EQ((Dims{size.height, size.width, 3}), read.shape.dims) << entry.path();
    EXPECT_FALSE(size.has_alpha) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 7);
}

TEST(Picture, SaysWhatItIsThatCannotBeRead) {
  const io::Scratch scratch;
  EXPECT_THAT([] { read_image(folder("tiff/pages.tiff")); },
              ThrowsMessage<Error>(HasSubstr("it holds several pages: save each alone")));
  EXPECT_THAT([] { read_image(folder("tiff/float.tiff")); },
              ThrowsMessage<Error>(HasSubstr("its samples are not unsigned integers")));
  EXPECT_THAT([] { read_image(folder("tiff/lab.tiff")); },
              ThrowsMessage<Error>(HasSubstr("its colours are CIELAB: save it in sRGB")));
  EXPECT_THAT([] { measured(folder("tiff/lab.tiff")); },
              ThrowsMessage<Error>(HasSubstr("its colours are CIELAB")));
  EXPECT_THAT([] { read_image(io::golden("dataset/videos/clip_00.mp4")); },
              ThrowsMessage<Error>(HasSubstr("clip_00.mp4 is a video, expected a picture")));
  io::write_file(scratch / "a.heic", std::string("\0\0\0\x18"
                                                 "ftypheic\0\0\0\0mif1heic",
                                                 24));
  io::write_file(scratch / "a.jxl", std::string("\xff\x0a\0\0", 4));
  EXPECT_THAT(
      [&] { read_image(scratch / "a.heic"); },
      ThrowsMessage<Error>(HasSubstr("a.heic is a HEIC picture, expected a picture that kinema "
                                     "reads\n  save it as PNG")));
  EXPECT_THAT([&] { read_image(scratch / "a.jxl"); },
              ThrowsMessage<Error>(HasSubstr("is a JPEG XL picture")));
  // A JP2 box and a codestream (ISO/IEC 15444-1), and an archive under a picture's name.
  io::write_file(scratch / "a.png", std::string("\0\0\0\x0cjP  \r\n\x87\n\0\0", 14));
  io::write_file(scratch / "b.png", std::string("\xff\x4f\xff\x51\0\x2f", 6));
  io::write_file(scratch / "c.png", std::string("PK\x03\x04\x14\0", 6));
  for (const auto& [file, message] : {std::pair("a.png", "is a JPEG 2000 picture"),
                                      {"b.png", "is a JPEG 2000 picture"},
                                      {"c.png",
                                       "is a ZIP archive, expected a picture that kinema "
                                       "reads\n  unpack it"}}) {
    const std::filesystem::path path = scratch / file;
    EXPECT_THAT([&] { read_image(path); }, ThrowsMessage<Error>(HasSubstr(message)));
    EXPECT_THAT([&] { measured(path); }, ThrowsMessage<Error>(HasSubstr(message)));
  }
  io::write_file(scratch / "c.mp4", std::string("PK\x03\x04\x14\0", 6));
  EXPECT_THAT([&] { read_video(scratch / "c.mp4"); },
              ThrowsMessage<Error>(HasSubstr("c.mp4 is a ZIP archive, expected a video")));
  EXPECT_EQ(unread_image_name("a b.HEIC"), "HEIC");
  EXPECT_EQ(unread_image_name("a.JP2"), "JPEG 2000");
  EXPECT_EQ(unread_image_name("a.nef"), "raw");
  EXPECT_EQ(unread_image_name("a"), "");
  for (const char* name : {"a.JFIF", "a.jpe", "a.avif", "a.TIF", "a.tiff"}) {
    EXPECT_TRUE(is_image_name(name)) << name;
  }
}

TEST(Picture, OfAvifAndTiffIsRefusedWhereItIsCutOff) {
  const io::Scratch scratch;
  for (const std::string name :
       {"avif/444.avif", "tiff/tiled.tiff", "tiff/lzw.tiff", "tiff/jpeg.tiff"}) {
    const std::string whole = io::read_text(folder(name));
    for (size_t size = 4; size + 40 < whole.size(); size += 41) {
      io::write_file(scratch / "cut.file", whole.substr(0, size));
      EXPECT_THAT([&] { read_image(scratch / "cut.file"); },
                  ThrowsMessage<Error>(HasSubstr("cut.file")))
          << name << " " << size;
    }
  }
}

// Expected values by the formulas in double precision (BT.2100, BT.2390, BT.2087, BT.1886), from
// the file's 10 bits. A difference of one level is rounding: libav's matrix has 16 bits, and tables
// replace powers. Colours at the edge of the gamut, where BT.1886 is steep near 0, move by two.
TEST(Picture, OfHighDynamicRangeIsToneMapped) {
  for (const std::string name : {"pq.avif", "hlg.avif", "cicp.png"}) {
    const fs::path path = folder("hdr") / name;
    EXPECT_LE(largest_difference(read_image(path), read_image(path.string() + ".png")), 2) << name;
    EXPECT_TRUE(measured(path).is_hdr) << name;
  }
  EXPECT_FALSE(measured(folder("avif/444.avif")).is_hdr);
}

TEST(Video, OfHighDynamicRangeIsToneMapped) {
  for (const std::string name : {"pq.mp4", "hlg.mp4"}) {
    const fs::path path = folder("hdr") / name;
    const Video video = read_video(path);
    ASSERT_EQ(video.frames.shape.dims[0], 3);
    EXPECT_TRUE(video.is_hdr);
    EXPECT_TRUE(probe_video(path).is_hdr);
    HostArray first = read_video(path, {.max_frames = 1}).frames;
    first.shape.dims.erase(first.shape.dims.begin());
    EXPECT_LE(largest_difference(first, read_image(path.string() + ".png")), 2) << name;
  }
  const Video plain = read_video(io::golden("dataset/videos/clip_00.mp4"), {.max_frames = 1});
  EXPECT_FALSE(plain.is_hdr);
  EXPECT_FALSE(plain.has_alpha);
}

}  // namespace
}  // namespace kinema::media
