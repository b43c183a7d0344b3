#include "kinema/sample/mask_crop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HostArray mask_of(int64_t height, int64_t width, const CropRegion& white) {
  HostArray out(Shape{DType::U8, {height, width}});
  for (int64_t y = white.top; y < white.top + white.height; ++y) {
    for (int64_t x = white.left; x < white.left + white.width; ++x) {
      out.as<uint8_t>()[static_cast<size_t>(y * width + x)] = 255;
    }
  }
  return out;
}

// Values of diffusers 0.42.1: VaeImageProcessor.get_crop_region(mask, width, height, pad).
TEST(CropRegion, IsThatOfDiffusers) {
  const auto region = [](const CropRegion& white, int64_t height, int64_t width, int64_t padding) {
    return crop_region(mask_of(100, 160, white), height, width, padding);
  };
  EXPECT_EQ(region({10, 20, 30, 40}, 64, 64, 0), (CropRegion{5, 20, 40, 40}));
  EXPECT_EQ(region({10, 20, 30, 40}, 64, 64, 8), (CropRegion{0, 12, 56, 56}));
  EXPECT_EQ(region({10, 20, 30, 40}, 64, 128, 8), (CropRegion{0, 12, 112, 56}));
  EXPECT_EQ(region({0, 0, 160, 100}, 64, 64, 4), (CropRegion{0, 0, 160, 100}));
  EXPECT_EQ(region({100, 5, 20, 90}, 512, 768, 32), (CropRegion{10, 0, 150, 100}));
  EXPECT_EQ(region({150, 90, 10, 10}, 96, 64, 3), (CropRegion{147, 81, 13, 19}));
  EXPECT_EQ(region({3, 50, 150, 4}, 64, 64, 10), (CropRegion{0, 0, 160, 100}));
  EXPECT_EQ(region({70, 40, 1, 1}, 1024, 1024, 0), (CropRegion{70, 40, 1, 1}));
}

TEST(CropRegion, RefusesABlackMask) {
  EXPECT_THAT([] { crop_region(mask_of(8, 8, {}), 8, 8, 2); },
              ThrowsMessage<Error>(HasSubstr("the mask is black")));
}

TEST(PutBack, KeepsWhatIsOutsideTheMask) {
  const CropRegion white{.left = 4, .top = 2, .width = 4, .height = 4};
  MaskCrop crop{.picture = HostArray(Shape{DType::U8, {12, 16, 3}}),
                .mask = mask_of(12, 16, white)};
  std::ranges::fill(crop.picture.as<uint8_t>(), uint8_t{40});
  crop.region = crop_region(crop.mask, 64, 64, 1);
  EXPECT_EQ(crop.region, (CropRegion{.left = 3, .top = 1, .width = 6, .height = 6}));
  HostArray made(Shape{DType::U8, {64, 64, 3}});
  std::ranges::fill(made.as<uint8_t>(), uint8_t{200});
  const HostArray out = put_back(crop, made);
  for (int64_t i = 0; i < 12 * 16; ++i) {
    const bool is_made = crop.mask.as<uint8_t>()[static_cast<size_t>(i)] > 0;
    EXPECT_EQ(out.as<uint8_t>()[static_cast<size_t>(3 * i)], is_made ? 200 : 40) << i;
  }
  crop.blur = 1.5;
  const HostArray soft = put_back(crop, made);
  const auto at = [&](int64_t y, int64_t x) {
    return int{soft.as<uint8_t>()[static_cast<size_t>(3 * (y * 16 + x))]};
  };
  EXPECT_GT(at(4, 3), 40);  // beside the mask, inside the region
  EXPECT_LT(at(4, 4), 200);
  EXPECT_EQ(at(4, 2), 40);  // outside the region
}

TEST(Cropped, IsThePartOfThePicture) {
  HostArray picture(Shape{DType::U8, {4, 5, 3}});
  for (size_t i = 0; i < picture.bytes.size(); ++i) {
    picture.as<uint8_t>()[i] = static_cast<uint8_t>(i);
  }
  const HostArray part = cropped(picture, {.left = 2, .top = 1, .width = 2, .height = 3});
  EXPECT_EQ(part.shape.dims, Dims({3, 2, 3}));
  EXPECT_EQ(part.as<uint8_t>()[0], (1 * 5 + 2) * 3);
  EXPECT_EQ(part.as<uint8_t>()[17], (3 * 5 + 3) * 3 + 2);
}

}  // namespace
}  // namespace kinema::sample
