#include "kinema/encoders/reference_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ReferenceSize, IsTheTrainingSizeOfTheNearestAspectRatio) {
  const auto of = [](int64_t height, int64_t width) {
    return reference_size(height, width, /*resizes=*/true, 16);
  };
  EXPECT_EQ(of(512, 512), (PictureSize{1024, 1024}));
  EXPECT_EQ(of(1080, 1920), (PictureSize{752, 1392}));  // 16 : 9
  EXPECT_EQ(of(3000, 2000), (PictureSize{1248, 832}));  // 2 : 3
  EXPECT_EQ(of(4000, 100), (PictureSize{1568, 672}));   // the tallest
}

TEST(ReferenceSize, IsItsOwnInWholeUnitsOtherwise) {
  EXPECT_EQ(reference_size(95, 64, /*resizes=*/false, 16), (PictureSize{80, 64}));
  EXPECT_THAT([] { reference_size(15, 64, true, 16); },
              ThrowsMessage<Error>(HasSubstr("expected at least 16 x 16")));
}

}  // namespace
}  // namespace kinema::encoders
