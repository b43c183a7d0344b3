// JPEG and WebP with settings inside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/media/image.h"
#include "kinema/media/png_text.h"

namespace kinema::media {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

HostArray gradient(int64_t height, int64_t width) {
  HostArray out(Shape{DType::U8, {height, width, 3}});
  for (int64_t i = 0; i < height * width * 3; ++i) {
    out.bytes[static_cast<size_t>(i)] =
        static_cast<std::byte>(60 + 100 * (i / (width * 3)) / height + 40 * (i % 3));
  }
  return out;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

double mean_difference(const HostArray& a, const HostArray& b) {
  double sum = 0;
  for (size_t i = 0; i < a.bytes.size(); ++i) {
    sum += std::abs(std::to_integer<int>(a.bytes[i]) - std::to_integer<int>(b.bytes[i]));
  }
  return sum / static_cast<double>(a.bytes.size());
}

const std::vector<PngText> kTexts{
    {.keyword = "kinema", .text = R"({"settings": {"prompt": "ein Bär"}})"},
    {.keyword = "parameters", .text = "ein B\xc3\xa4r \xf0\x9f\x90\xbb\nSteps: 4"}};

TEST(EncodeImage, KeepsThePictureAndItsTexts) {
  const HostArray image = gradient(33, 50);
  for (const ImageFormat format : {ImageFormat::JPEG, ImageFormat::WEBP}) {
    for (const int quality : {80, 100}) {
      SCOPED_TRACE(std::string(ending_of(format)) + std::to_string(quality));
      const std::string file = encode_image(image, format, quality, kTexts);
      EXPECT_THAT(file,
                  format == ImageFormat::JPEG ? StartsWith("\xff\xd8\xff") : StartsWith("RIFF"));
      const HostArray shown = read_image(bytes_of(file), "a");
      ASSERT_EQ(shown.shape, image.shape);
      // The quantization steps of quality 80 are at most 4 for the low frequencies of a gradient.
      EXPECT_LE(mean_difference(shown, image), 4);
      if (format == ImageFormat::WEBP && quality == 100) {
        EXPECT_EQ(shown.bytes, image.bytes);
      }
      const std::vector<PngText> texts = read_image_texts(bytes_of(file), "a");
      ASSERT_EQ(texts.size(), 2U);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(texts[i].keyword, kTexts[i].keyword);
        EXPECT_EQ(texts[i].text, kTexts[i].text);
      }
    }
  }
}

TEST(EncodeImage, AQualityMakesASmallerFile) {
  HostArray noise(Shape{DType::U8, {64, 64, 3}});
  uint32_t state = 1;
  for (std::byte& byte : noise.bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  for (const ImageFormat format : {ImageFormat::JPEG, ImageFormat::WEBP}) {
    EXPECT_LT(encode_image(noise, format, 20).size(), encode_image(noise, format, 90).size());
  }
}

TEST(EncodeImage, LeavesOutTextsThatAJpegCannotHold) {
  const std::vector<PngText> large{{.keyword = "kinema", .text = std::string(70'000, 'a')}};
  const std::string file = encode_image(gradient(8, 8), ImageFormat::JPEG, 90, large);
  EXPECT_EQ(read_image(bytes_of(file), "a").shape.dims, (Dims{8, 8, 3}));
  EXPECT_TRUE(read_image_texts(bytes_of(file), "a").empty());
}

TEST(EncodeImage, RefusesWhatAFormatCannotHold) {
  EXPECT_THAT([] { encode_image(gradient(1, 16'384), ImageFormat::WEBP, 90); },
              ThrowsMessage<Error>(HasSubstr("16384 pixels")));
  EXPECT_THAT([] { encode_image(gradient(1, 65'501), ImageFormat::JPEG, 90); },
              ThrowsMessage<Error>(HasSubstr("65501 pixels")));
  EXPECT_THAT([] { encode_image(gradient(8, 8), ImageFormat::JPEG, 0); },
              ThrowsMessage<Error>(HasSubstr("quality is 0")));
}

TEST(EncodeImage, DamagedExifHasNoTexts) {
  const std::string file = encode_image(gradient(8, 8), ImageFormat::JPEG, 90, kTexts);
  for (size_t i = 0; i < 300; ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(0xFF);
    try {
      read_image_texts(bytes_of(damaged), "a");  // must end, and read within the bytes
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace kinema::media
