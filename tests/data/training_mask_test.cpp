#include "kinema/data/training_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The share of the picture that is made.
double share(const HostArray& mask) {
  const auto values = mask.as<float>();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(TrainingMask, CoversAPartOfThePicture) {
  for (const auto& [kind, least, most] :
       {std::tuple(MaskKind::STROKES, 0.1, 0.45), std::tuple(MaskKind::BOXES, 0.1, 0.45)}) {
    double sum = 0;
    constexpr uint64_t kMasks = 200;
    for (uint64_t i = 0; i < kMasks; ++i) {
      const HostArray mask = training_mask({kind}, 96, 64, random_key(3, "a test", i));
      EXPECT_EQ(mask.shape.dims, Dims({96, 64}));
      EXPECT_TRUE(std::ranges::all_of(mask.as<float>(),
                                      [](float value) { return value == 0.0F || value == 1.0F; }));
      EXPECT_GT(share(mask), 0.0);
      sum += share(mask);
    }
    EXPECT_GT(sum / kMasks, least);
    EXPECT_LT(sum / kMasks, most);
  }
  EXPECT_EQ(share(training_mask({MaskKind::ALL}, 24, 40, random_key(3, "a test"))), 1.0);
}

// Pictures of any size have masks of the same proportions.
TEST(TrainingMask, GrowsWithThePicture) {
  const auto key = random_key(11, "a test");
  EXPECT_NEAR(share(training_mask({MaskKind::STROKES}, 64, 64, key)),
              share(training_mask({MaskKind::STROKES}, 1024, 1024, key)), 0.03);
  training_mask({MaskKind::BOXES}, 1, 1, key);
  training_mask({MaskKind::STROKES}, 1, 2000, key);
}

TEST(TrainingMask, DependsOnItsKeyAlone) {
  const std::vector<MaskKind> kinds{MaskKind::STROKES, MaskKind::BOXES};
  const auto of = [&](uint64_t i) {
    return training_mask(kinds, 32, 32, random_key(1, "a test", i)).bytes;
  };
  EXPECT_EQ(of(4), of(4));
  EXPECT_NE(of(4), of(5));
}

TEST(TrainingMask, LeavesAGivenMask) {
  ClipControl given{
      .frames = {}, .mask = HostArray(Shape{DType::F32, {1, 2, 2}}), .references = {}};
  const ClipFormat format{.height = 2, .width = 2, .num_frames = 1};
  add_training_mask({MaskKind::ALL}, format, random_key(1, "a test"), given);
  EXPECT_EQ(share(given.mask), 0.0);
  ClipControl none;
  add_training_mask({}, format, random_key(1, "a test"), none);
  EXPECT_TRUE(none.mask.bytes.empty());
  add_training_mask({MaskKind::ALL}, format, random_key(1, "a test"), none);
  EXPECT_EQ(share(none.mask), 1.0);
}

TEST(TrainingMask, HasNames) {
  EXPECT_EQ(mask_kind_from_string("boxes"), MaskKind::BOXES);
  EXPECT_EQ(text_of({MaskKind::STROKES, MaskKind::ALL}, 7), "strokes all by seed 7");
  EXPECT_THAT([] { mask_kind_from_string("blobs"); },
              ThrowsMessage<Error>(HasSubstr("expected strokes, boxes, all")));
}

}  // namespace
}  // namespace kinema::data
