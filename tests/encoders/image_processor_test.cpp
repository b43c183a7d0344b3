#include "kinema/encoders/image_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "arrays.h"
#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kGolden = fs::path(KINEMA_SOURCE_DIR) / "tests" / "golden";

/// A folder with only a preprocessor_config.json.
class ProcessorFolder {
 public:
  explicit ProcessorFolder(const std::string& json)
      : path_(fs::path(testing::TempDir()) / ("kinema_processor_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
    std::ofstream(path_ / "preprocessor_config.json") << json;
  }
  ~ProcessorFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

HostArray plain(int64_t height, int64_t width, uint8_t value) {
  HostArray image(Shape{DType::U8, {height, width, 3}});
  std::ranges::fill(image.as<uint8_t>(), value);
  return image;
}

class ImageSizes : public testing::TestWithParam<const char*> {};

// Every byte equals PIL's, so one rounding of f32 remains: 2^-23 of values up to 2.7.
constexpr double kRounding = 1e-6;

TEST_P(ImageSizes, PixelsForTheAutoencoderAreThoseOfPilsLanczos) {
  const auto file = io::SafetensorsFile::open(kGolden / "io" / "image.safetensors");
  const std::string size = GetParam();
  const HostArray expected = file.at(size + ".vae_input").copy();
  const HostArray got = autoencoder_pixels(file.at(size + ".image").copy(), expected.shape.dims[2],
                                           expected.shape.dims[3]);
  EXPECT_LE(largest_difference(got, expected), kRounding);
}

TEST_P(ImageSizes, PixelsForClipAreThoseOfPilsBicubicAndTheCrop) {
  const auto file = io::SafetensorsFile::open(kGolden / "io" / "image.safetensors");
  const ImageProcessor processor = read_image_processor(kGolden / "wan21_i2v" / "image_processor");
  const std::string size = GetParam();
  EXPECT_LE(largest_difference(processor(file.at(size + ".image").copy()),
                               file.at(size + ".clip_pixels").copy()),
            kRounding);
}

INSTANTIATE_TEST_SUITE_P(Golden, ImageSizes, testing::Values("same", "larger", "smaller"));

TEST(ImageProcessor, ASmallImageIsCentredOnBlack) {
  ImageProcessor processor;
  processor.do_resize = false;
  processor.do_normalize = false;
  processor.crop_height = 5;
  processor.crop_width = 4;
  const HostArray got = processor(plain(2, 9, 255));
  // Two rows of five: of the three black rows, the reference puts the odd one at the top.
  for (int64_t y = 0; y < 5; ++y) {
    EXPECT_EQ(got.as<float>()[static_cast<size_t>(y * 4)], y == 2 || y == 3 ? 1.0F : 0.0F) << y;
  }
}

TEST(ImageProcessor, OldFilesGiveSizesAsNumbers) {
  const ProcessorFolder folder(R"({"size": 64, "crop_size": 48, "resample": 2})");
  const ImageProcessor processor = read_image_processor(folder.path());
  EXPECT_EQ(processor.shortest_edge, 64);
  EXPECT_EQ(processor.crop_height, 48);
  EXPECT_EQ(processor.crop_width, 48);
  EXPECT_EQ(processor.resample, media::Filter::Bilinear);
}

TEST(ImageProcessor, ProblemsNameTheKey) {
  const auto message = [](const std::string& json) -> std::string {
    const ProcessorFolder folder(json);
    try {
      read_image_processor(folder.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(R"({"resample": 7})"), HasSubstr("resample` is 7"));
  EXPECT_THAT(message(R"({"size": {"shortest_edge": 0}})"), HasSubstr("shortest_edge` is 0"));
  EXPECT_THAT(message(R"({"image_std": [1, 0, 1]})"), HasSubstr("image_std"));
  EXPECT_THAT(message(R"({"rescale_factor": 1e39})"), HasSubstr("`rescale_factor` is 1e+39"));
  EXPECT_THAT(message(R"({"image_mean": [1, 0]})"), HasSubstr("2 numbers, expected 3"));
}

TEST(ImageProcessor, OnlyRgbBytesAreTaken) {
  EXPECT_THROW(autoencoder_pixels(HostArray(Shape{DType::U8, {4, 4, 4}}), 8, 8), Error);
  EXPECT_THROW(ImageProcessor()(HostArray(Shape{DType::F32, {4, 4, 3}})), Error);
}

// The bytes of Pillow 13.0.0, for sizes with either order of the two passes.
TEST(ResizeImage, EveryByteIsPils) {
  const auto file = io::SafetensorsFile::open(kGolden / "images" / "pil.safetensors");
  int compared = 0;
  for (const io::TensorView& tensor : file.tensors()) {
    const size_t dot = tensor.name.find(".lanczos");
    if (dot == std::string::npos) {
      continue;
    }
    const std::string name = tensor.name.substr(0, dot);
    const HostArray image = file.at(name + ".image").copy();
    for (const auto& [key, filter] : {std::pair{".lanczos", media::Filter::Lanczos},
                                      {".bicubic", media::Filter::Bicubic},
                                      {".bilinear", media::Filter::Bilinear}}) {
      const HostArray expected = file.at(name + key).copy();
      const Dims& size = expected.shape.dims;
      EXPECT_EQ(media::resize_image(image, size[0], size[1], filter).bytes, expected.bytes)
          << name << key;
      ++compared;
    }
  }
  EXPECT_GE(compared, 30);
}

TEST(ResizeImage, AConstantStaysConstantWithEveryFilter) {
  for (const media::Filter filter :
       {media::Filter::Bilinear, media::Filter::Bicubic, media::Filter::Lanczos}) {
    const HostArray got = media::resize_image(plain(17, 5, 201), 6, 23, filter);
    EXPECT_TRUE(std::ranges::all_of(got.as<uint8_t>(), [](uint8_t v) { return v == 201; }));
  }
}

}  // namespace
}  // namespace kinema::encoders
