#include "kinema/media/video.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <malloc.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/media/orientation.h"
#include "kinema/media/png_text.h"

namespace kinema::media {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

int largest_difference(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  int largest = a.size() == b.size() ? 0 : 256;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

// Smooth colours that change per frame, so that 4:2:0 loses little.
HostArray gradient(int64_t frames, int64_t height, int64_t width) {
  HostArray out(Shape{DType::U8, {frames, height, width, 3}});
  uint8_t* p = out.as<uint8_t>().data();
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        *p++ = static_cast<uint8_t>(40 + 150 * y / height);
        *p++ = static_cast<uint8_t>(40 + 150 * x / width);
        *p++ = static_cast<uint8_t>(60 + 10 * f);
      }
    }
  }
  return out;
}

TEST(Video, DecodesTheReferenceClip) {
  const io::SafetensorsFile expected =
      io::SafetensorsFile::open(io::golden("io/dataset.safetensors"));
  const io::TensorView& rgb = expected.at("clip_00.rgb");

  const Video video = read_video(io::golden("dataset/videos/clip_00.mp4"));

  ASSERT_EQ(video.frames.shape, rgb.shape);
  EXPECT_EQ(video.fps, 16);
  // 3 levels: the difference between conversions of the same planes (fixtures README).
  EXPECT_LE(largest_difference(video.frames.as<uint8_t>(), rgb.copy().as<uint8_t>()), 3);
}

TEST(Video, StopsAtMaxFrames) {
  const Video video = read_video(io::golden("dataset/videos/clip_01.mp4"), {.max_frames = 5});

  EXPECT_EQ(video.frames.shape, (Shape{DType::U8, {5, 64, 64, 3}}));
}

// Red; the left half is transparent. Made by ffmpeg with -pix_fmt yuva420p, which stores the alpha
// channel in separate packets.
TEST(Video, FillsWhatIsTransparentInWebM) {
  for (const char* name : {"vp8", "vp9"}) {
    SCOPED_TRACE(name);
    const auto path = io::golden(std::string("images/alpha/") + name + ".webm");
    EXPECT_TRUE(probe_video(path).has_alpha);
    const auto row = [&](std::string_view background) {
      const Video video = read_video(path, {.background = read_background(background)});
      EXPECT_TRUE(video.has_alpha);
      EXPECT_EQ(video.frames.shape.dims, (Dims{2, 16, 16, 3}));
      const auto pixels = video.frames.as<uint8_t>();
      return std::vector<uint8_t>(pixels.begin(), pixels.begin() + 16 * 3);
    };
    const std::vector<uint8_t> red = row("drop");
    EXPECT_GT(red[0], 240);
    EXPECT_LT(red[1], 15);
    // Far enough from the edge, where the alpha channel's own compression blurs it.
    const auto ends = [&](const std::vector<uint8_t>& of) {
      return std::vector<uint8_t>{of[0], of[1], of[2], of[45], of[46], of[47]};
    };
    EXPECT_THAT(ends(row("#20c0ff")), ElementsAre(0x20, 0xc0, 0xff, red[45], red[46], red[47]));
  }
}

TEST(Video, RefusesWhatIsNoVideoAndNamesIt) {
  const io::Scratch scratch;
  io::write_file(scratch / "text.mp4", "this is not a video");
  io::write_file(scratch / "empty.mp4", "");
  io::write_file(scratch / "list.mp4", "#EXTM3U\n#EXTINF:1,\n/etc/passwd\n");

  EXPECT_THAT([&] { read_video(scratch / "none.mp4"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("none.mp4"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { read_video(scratch / "text.mp4"); },
              ThrowsMessage<Error>(HasSubstr("text.mp4")));
  EXPECT_THAT([&] { read_video(scratch / "empty.mp4"); },
              ThrowsMessage<Error>(HasSubstr("is empty")));
  EXPECT_THAT([&] { read_video(scratch / "list.mp4"); },
              ThrowsMessage<Error>(HasSubstr("list.mp4")));
}

TEST(Video, RefusesATruncatedClipWhereverItIsCut) {
  const io::Scratch scratch;
  const std::string whole = io::read_text(io::golden("dataset/videos/clip_00.mp4"));
  for (const size_t part : {1U, 3U, 5U, 7U, 9U}) {
    SCOPED_TRACE(part);
    io::write_file(scratch / "cut.mp4", whole.substr(0, whole.size() * part / 10));
    EXPECT_THAT([&] { read_video(scratch / "cut.mp4"); },
                ThrowsMessage<Error>(HasSubstr("cut.mp4")));
  }
}

// libav does the parsing; here only an Error, or no error, is acceptable.
TEST(Video, SurvivesDamagedBytes) {
  const io::Scratch scratch;
  const std::string whole = io::read_text(io::golden("dataset/videos/clip_01.mp4"));
  RandomStream random({7, 7});
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    std::string damaged = whole;
    for (uint64_t n = 1 + random.below(8); n > 0; --n) {
      damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
    }
    std::ofstream(scratch / "a.mp4", std::ios::binary) << damaged;
    try {
      EXPECT_GT(read_video(scratch / "a.mp4", {.max_bytes = 1 << 24}).frames.shape.dims[0], 0);
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr("a.mp4"));
    }
  }
  EXPECT_GT(refused, 20);
}

TEST(Video, HoldsToItsLimits) {
  const auto clip = io::golden("dataset/videos/clip_00.mp4");

  EXPECT_THROW(read_video(clip, {.max_pixels = 1000}), Error);
  EXPECT_THAT([&] { read_video(clip, {.max_bytes = 64 * 64 * 3 * 4}); },
              ThrowsMessage<Error>(HasSubstr("more than 49152 bytes")));
}

TEST(Video, WritesMp4ThatReadsBack) {
  const io::Scratch scratch;
  const HostArray frames = gradient(7, 32, 48);

  const WrittenMp4 written = write_mp4(scratch / "a.mp4", frames, {.fps = 12, .crf = 4});
  const Video back = read_video(scratch / "a.mp4");

  EXPECT_FALSE(written.padded);
  EXPECT_EQ(back.fps, 12);
  ASSERT_EQ(back.frames.shape, frames.shape);
  // crf 4 keeps planes within about 2 levels; limited range stretches them by 255/219, chroma by up
  // to 2.02 (BT.601 blue), plus two roundings: 6.
  EXPECT_LE(largest_difference(back.frames.as<uint8_t>(), frames.as<uint8_t>()), 6);
  // The index comes before the data, so that a player can start before it has the whole file.
  const std::string bytes = io::read_text(scratch / "a.mp4");
  EXPECT_LT(bytes.find("moov"), bytes.find("mdat"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST(Video, PadsOddSizesAndSaysSo) {
  const io::Scratch scratch;
  const HostArray frames = gradient(3, 15, 17);

  const WrittenMp4 written = write_mp4(scratch / "a.mp4", frames);

  EXPECT_TRUE(written.padded);
  EXPECT_EQ(written.height, 16);
  EXPECT_EQ(written.width, 18);
  EXPECT_EQ(read_video(scratch / "a.mp4").frames.shape, (Shape{DType::U8, {3, 16, 18, 3}}));
}

TEST(Video, TurnsFramesAsTheFileAsks) {
  const io::Scratch scratch;
  write_mp4(scratch / "a.mp4", gradient(2, 16, 32));
  const HostArray lying = read_video(scratch / "a.mp4").frames;
  std::string bytes = io::read_text(scratch / "a.mp4");
  // The track header's matrix (ISO/IEC 14496-12, 8.3.2), 16.16 fixed point: a quarter turn
  // clockwise.
  const size_t matrix = bytes.find("tkhd") + 4 + 40;
  const uint32_t turn[4] = {0, 0x10000, 0xffff0000, 0};
  const size_t places[4] = {0, 4, 12, 16};
  for (size_t i = 0; i < 4; ++i) {
    for (size_t k = 0; k < 4; ++k) {
      bytes[matrix + places[i] + k] = static_cast<char>(turn[i] >> (24 - 8 * k) & 0xff);
    }
  }
  io::write_file(scratch / "b.mp4", bytes);

  const HostArray upright = read_video(scratch / "b.mp4").frames;

  ASSERT_EQ(upright.shape, (Shape{DType::U8, {2, 32, 16, 3}}));
  const auto a = lying.as<uint8_t>();
  const auto b = upright.as<uint8_t>();
  for (size_t y = 0; y < 16; ++y) {
    for (size_t x = 0; x < 32; ++x) {
      ASSERT_EQ(b[(x * 16 + 15 - y) * 3], a[(y * 32 + x) * 3]);
    }
  }
}

TEST(Video, EnlargesTinyFrames) {
  const io::Scratch scratch;

  write_mp4(scratch / "a.mp4", gradient(2, 12, 12), {.enlarge = 4});

  EXPECT_EQ(read_video(scratch / "a.mp4").frames.shape, (Shape{DType::U8, {2, 48, 48, 3}}));
}

TEST(Video, SaysWhyItCannotWrite) {
  const io::Scratch scratch;

  EXPECT_THAT([&] { write_mp4(scratch / "none/a.mp4", gradient(1, 16, 16)); },
              ThrowsMessage<Error>(HasSubstr("none/a.mp4")));
  EXPECT_THAT(
      [&] {
        write_mp4(scratch / "a.mp4", HostArray(Shape{DType::F32, {1, 4, 4, 3}}));
      },
      ThrowsMessage<Error>(HasSubstr("f32[1,4,4,3]")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

// Independent of the previous contents of the encoder's memory.
TEST(Video, SameFramesMakeTheSameFile) {
  const io::Scratch scratch;
  HostArray frames(Shape{DType::U8, {9, 64, 96, 3}});
  RandomStream random({5, 6});
  const auto pixels = frames.as<uint8_t>();
  for (size_t i = 0; i < pixels.size(); ++i) {
    const double wave = std::sin(static_cast<double>(i) / 900.0);
    pixels[i] = static_cast<uint8_t>(128 + 60 * wave + 60 * random.uniform());
  }
  std::set<std::string> files;
  for (int i = 0; i < 8; ++i) {
    mallopt(M_PERTURB, 1 + 30 * i);  // the fill byte of new and freed memory
    write_mp4(scratch / "a.mp4", frames);
    files.insert(io::read_text(scratch / "a.mp4"));
  }
  mallopt(M_PERTURB, 0);
  EXPECT_EQ(files.size(), 1U);
}

TEST(Image, WritesPngThatReadsBackExactly) {
  const io::Scratch scratch;
  HostArray image = gradient(1, 13, 9);
  image.shape.dims.erase(image.shape.dims.begin());

  write_png(scratch / "a.png", image);

  EXPECT_EQ(read_image(scratch / "a.png").shape, image.shape);
  EXPECT_EQ(read_image(scratch / "a.png").bytes, image.bytes);
}

/// The strongest of red, green and blue in a corner of an image; `w`: none.
char colour(const HostArray& image, bool bottom, bool right) {
  const int64_t y = bottom ? image.shape.dims[0] - 4 : 4;
  const int64_t x = right ? image.shape.dims[1] - 4 : 4;
  const auto pixel = image.as<uint8_t>().subspan((y * image.shape.dims[1] + x) * 3, 3);
  for (const char c : {'r', 'g', 'b'}) {
    const size_t i = c == 'r' ? 0 : (c == 'g' ? 1 : 2);
    if (pixel[i] > pixel[(i + 1) % 3] + 100 && pixel[i] > pixel[(i + 2) % 3] + 100) {
      return c;
    }
  }
  return 'w';
}

std::string corners(const HostArray& image) {
  return {colour(image, false, false), colour(image, false, true), colour(image, true, false),
          colour(image, true, true)};
}

// Expected pixels are exactly those of Pillow 13 (`exif_transpose`, `convert("RGB")`): same inverse
// DCT, same chroma upsampling.
TEST(Image, HasThePixelsThatPillowReads) {
  const std::filesystem::path folder =
      std::filesystem::path(KINEMA_SOURCE_DIR) / "tests" / "golden" / "images";
  for (const std::string name :
       {"jpeg/420.jpg", "jpeg/422.jpg", "jpeg/444.jpg", "jpeg/progressive.jpg", "jpeg/grey.jpg",
        "jpeg/cmyk.jpg", "jpeg/turned.jpg", "webp/lossy.webp", "webp/lossless.webp",
        "webp/alpha.webp", "webp/turned.webp"}) {
    const HostArray read = read_image(folder / name, {.drop = true});
    const HostArray expected = read_image((folder / name).replace_extension(".png"));
    EXPECT_EQ(read.shape, expected.shape) << name;
    EXPECT_TRUE(read.bytes == expected.bytes) << name;
    const std::string text = io::read_text(folder / name);
    const ImageSize size = measure_image(std::as_bytes(std::span(text)), name);
    EXPECT_EQ((Dims{size.height, size.width, 3}), expected.shape.dims) << name;
  }
}

TEST(Image, RefusesWhatIsCutOffAnywhere) {
  const io::Scratch scratch;
  const std::filesystem::path folder =
      std::filesystem::path(KINEMA_SOURCE_DIR) / "tests" / "golden" / "images";
  for (const std::string name : {"jpeg/progressive.jpg", "webp/lossy.webp", "webp/lossless.webp"}) {
    const std::string whole = io::read_text(folder / name);
    // The last two bytes are a JPEG's end marker, which decoders do not need.
    for (size_t size = 3; size + 2 < whole.size(); size += 29) {
      std::ofstream(scratch / "cut.file", std::ios::binary) << whole.substr(0, size);
      EXPECT_THAT([&] { read_image(scratch / "cut.file"); },
                  ThrowsMessage<Error>(HasSubstr("cut.file cannot be decoded")))
          << name << " " << size;
    }
  }
}

// The stored corners are red, green / blue, white; the expected ones are from PIL's exif_transpose.
TEST(Image, IsRotatedByExif) {
  const std::filesystem::path folder =
      std::filesystem::path(KINEMA_SOURCE_DIR) / "tests" / "golden" / "images";
  const HostArray transposed = read_image(folder / "orientation_5.jpg");
  EXPECT_EQ(transposed.shape.dims, (Dims{64, 32, 3}));
  EXPECT_EQ(corners(transposed), "rbgw");
  const HostArray turned = read_image(folder / "orientation_6.jpg");
  EXPECT_EQ(turned.shape.dims, (Dims{64, 32, 3}));
  EXPECT_EQ(corners(turned), "brwg");
}

// The same in a PNG, in a chunk between its header (33 bytes) and its pixels.
TEST(Image, IsRotatedByAPngChunk) {
  const io::Scratch scratch;
  HostArray image(Shape{DType::U8, {2, 3, 3}});
  for (size_t i = 0; i < image.bytes.size(); ++i) {
    image.bytes[i] = static_cast<std::byte>(i * 10);
  }
  write_png(scratch / "a.png", image);
  const std::string plain = io::read_text(scratch / "a.png");
  // 26 bytes of TIFF: one entry, orientation 6. The decoder does not verify the checksum.
  const std::string tiff("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", 26);
  const std::string chunk = std::string(
                                "\0\0\0\x1a"
                                "eXIf",
                                8) +
                            tiff + std::string(4, '\0');
  io::write_file(scratch / "b.png", plain.substr(0, 33) + chunk + plain.substr(33));

  const HostArray shown = read_image(scratch / "b.png");
  ASSERT_EQ(shown.shape.dims, (Dims{3, 2, 3}));
  EXPECT_EQ(std::to_integer<int>(shown.bytes[3]), 0) << "what was first is at the top right now";
}

TEST(Image, TextsInAPngAreReadWithoutThePixels) {
  const std::string bytes =
      io::read_text(std::filesystem::path(KINEMA_SOURCE_DIR) / "fuzz/corpus/png_text/texts.png");
  const std::vector<PngText> texts = read_png_texts(std::as_bytes(std::span(bytes)), "texts.png");
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0].keyword, "Author");
  EXPECT_EQ(texts[0].text, "André");  // Latin-1 in the file
  EXPECT_EQ(texts[1].keyword, "kinema");
  EXPECT_EQ(texts[1].text, R"({"settings": {"seed": 1}})");
}

TEST(Image, CompressedTextsInAPngAreRead) {
  const std::string bytes = io::read_text(std::filesystem::path(KINEMA_SOURCE_DIR) /
                                          "fuzz/corpus/png_text/compressed.png");
  const std::vector<PngText> texts = read_png_texts(std::as_bytes(std::span(bytes)), "a.png");
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].keyword, "kinema");
  EXPECT_TRUE(texts[0].text.starts_with(R"({"settings": {"seed": 1}})"));
  EXPECT_EQ(texts[0].text.size(), 40025U);
}

// x' = a x + c y, y' = b x + d y, y downwards.
TEST(Video, StandsAsItsMatrixSays) {
  EXPECT_EQ(matrix_orientation(1, 0, 0, 1), 1);
  EXPECT_EQ(matrix_orientation(-1, 0, 0, 1), 2) << "left and right exchanged";
  EXPECT_EQ(matrix_orientation(-1, 0, 0, -1), 3);
  EXPECT_EQ(matrix_orientation(1, 0, 0, -1), 4) << "top and bottom exchanged";
  EXPECT_EQ(matrix_orientation(0, 1, 1, 0), 5) << "transposed";
  EXPECT_EQ(matrix_orientation(0, 1, -1, 0), 6) << "right goes down: a quarter clockwise";
  EXPECT_EQ(matrix_orientation(0, -1, -1, 0), 7);
  EXPECT_EQ(matrix_orientation(0, -1, 1, 0), 8);
  EXPECT_EQ(matrix_orientation(0, 0, 0, 0), 1);
}

TEST(Image, ResizesConstantsToThemselvesAndKeepsTheMean) {
  HostArray image(Shape{DType::U8, {10, 14, 3}});
  std::ranges::fill(image.as<uint8_t>(), uint8_t{77});

  const HostArray larger = resize_image(image, 25, 9);

  EXPECT_EQ(larger.shape, (Shape{DType::U8, {25, 9, 3}}));
  EXPECT_TRUE(std::ranges::all_of(larger.as<uint8_t>(), [](uint8_t v) { return v == 77; }));
}

TEST(ContactSheet, PlacesFramesAndLabels) {
  const std::vector<HostArray> videos = {gradient(5, 8, 8), gradient(5, 8, 8), gradient(5, 8, 8)};
  const std::vector<std::string> labels = {"a red circle", "b", "c"};

  const HostArray sheet =
      contact_sheet(videos, labels, {.columns = 2, .frames_per_video = 3, .enlarge = 2});

  EXPECT_EQ(sheet.shape.dims[1], 2 * (3 * 18 - 2) + 3 * 6);
  // The first pixel of the first frame, just inside the margin.
  const auto pixels = sheet.as<uint8_t>();
  const size_t at = static_cast<size_t>((6 * sheet.shape.dims[1] + 6) * 3);
  EXPECT_EQ(pixels[at], 40);
  EXPECT_EQ(pixels[at + 2], 60);
  EXPECT_THROW(contact_sheet(videos, std::span(labels).first(2)), Error);
}

/// Colours in the same cell of 5 bits per channel are averaged.
constexpr int kGifStep = 7;

TEST(Gif, HasTheFramesAndTheirTimes) {
  HostArray frames(Shape{DType::U8, {3, 6, 8, 3}});
  uint8_t* p = frames.as<uint8_t>().data();
  for (int64_t i = 0; i < 3 * 6 * 8; ++i) {  // three colours, each for a frame and a corner
    const int64_t frame = i / 48;
    p[3 * i + static_cast<size_t>(i % 48 == 0 ? (frame + 1) % 3 : frame)] = 200;
  }
  const std::string gif = encode_gif(frames, {.fps = 10, .enlarge = 2});

  EXPECT_TRUE(gif.starts_with("GIF89a"));
  EXPECT_THAT(gif, HasSubstr("NETSCAPE2.0"));  // loops for ever
  const Video read = read_video(std::as_bytes(std::span(gif)), "gif");
  EXPECT_NEAR(read.fps, 10, 0.01);
  ASSERT_EQ(read.frames.shape.dims, (Dims{3, 12, 16, 3}));
  HostArray enlarged(read.frames.shape);
  for (int64_t i = 0; i < enlarged.shape.elements(); ++i) {
    const int64_t c = i % 3;
    const int64_t x = i / 3 % 16 / 2;
    const int64_t y = i / 48 % 12 / 2;
    const int64_t f = i / (48 * 12);
    enlarged.as<uint8_t>()[i] = p[((f * 6 + y) * 8 + x) * 3 + c];
  }
  EXPECT_EQ(largest_difference(read.frames.as<uint8_t>(), enlarged.as<uint8_t>()), 0);
}

TEST(Gif, FewColoursAreKeptToTheStep) {
  // At most 19 x 19 cells of eight levels, of which 20 x 13 pixels touch fewer than 256: no cells
  // are merged, and a colour moves only within its cell.
  const HostArray frames = gradient(1, 20, 13);
  const std::string gif = encode_gif(frames);
  const Video read = read_video(std::as_bytes(std::span(gif)), "gif");
  EXPECT_LE(largest_difference(read.frames.as<uint8_t>(), frames.as<uint8_t>()), kGifStep);
}

TEST(Gif, ManyColoursAreCutWhereTheyAreMany) {
  // A uniform distribution of colours: 256 equal boxes have edges of 40 levels, so no value is
  // further than 20 from its box's centre, and the mean distance is 10.
  HostArray frames(Shape{DType::U8, {2, 64, 64, 3}});
  RandomStream random({3, 4});
  for (uint8_t& value : frames.as<uint8_t>()) {
    value = static_cast<uint8_t>(random.bits());
  }
  const std::string gif = encode_gif(frames);
  EXPECT_EQ(gif, encode_gif(frames));
  const Video read = read_video(std::as_bytes(std::span(gif)), "gif");
  double sum = 0;
  const std::span<const uint8_t> a = frames.as<uint8_t>();
  const std::span<const uint8_t> b = std::as_const(read.frames).as<uint8_t>();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(a[i] - b[i]);
  }
  EXPECT_LE(sum / static_cast<double>(a.size()), 20);
}

TEST(Gif, RefusesOtherFiles) {
  EXPECT_THAT(
      [] {
        encode_gif(HostArray(Shape{DType::U8, {2, 4, 4, 4}}));
      },
      ThrowsMessage<Error>(HasSubstr("u8 [f, h, w, 3]")));
  EXPECT_THAT([] { encode_gif(gradient(1, 2, 2000), {.enlarge = 64}); },
              ThrowsMessage<Error>(HasSubstr("larger than a GIF")));
}

}  // namespace
}  // namespace kinema::media
