#include "kinema/encoders/clip_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr LatentLayout kWan;
constexpr std::array<int64_t, 3> kPatches = {1, 2, 2};

TEST(ClipSizes, ThatDivideAreAccepted) {
  EXPECT_NO_THROW(check_clip_sizes(81, 480, 832, kWan, kPatches));
  EXPECT_NO_THROW(check_clip_sizes(1, 16, 16, kWan, kPatches)) << "an image";
  EXPECT_NO_THROW(check_clip_sizes(9, 40, 48, kWan)) << "cells, of which nobody makes patches";
}

TEST(ClipSizes, NameTheKeyAndTheNearestThatWork) {
  const auto check = [](int64_t frames, int64_t height, int64_t width) {
    return [=] { check_clip_sizes(frames, height, width, kWan, kPatches); };
  };
  EXPECT_THAT(check(9, 40, 48),
              ThrowsMessage<Error>(AllOf(HasSubstr("height is 40"), HasSubstr("32 and 48 work"))));
  EXPECT_THAT(check(9, 48, 17),
              ThrowsMessage<Error>(AllOf(HasSubstr("width is 17"), HasSubstr("16 and 32 work"))));
  EXPECT_THAT(check(10, 48, 48), ThrowsMessage<Error>(AllOf(HasSubstr("num_frames is 10"),
                                                            HasSubstr("9 and 13 work"))));
  EXPECT_THAT(check(9, 7, 48), ThrowsMessage<Error>(HasSubstr("16 works")));
}

TEST(ClipSizes, OfPatchesOfSeveralLatentFrames) {
  // Two latent frames per patch: the first latent frame is one frame, the others are four. 5, 13,
  // 21 frames.
  const auto check = [](int64_t frames) {
    return [=] { check_clip_sizes(frames, 16, 16, kWan, {2, 2, 2}); };
  };
  for (const int64_t frames : {5, 13, 21}) {
    EXPECT_NO_THROW(check(frames)());
  }
  EXPECT_THAT(check(9), ThrowsMessage<Error>(HasSubstr("5 and 13 work")));
  EXPECT_THAT(check(1), ThrowsMessage<Error>(HasSubstr("5 works")));
}

TEST(ClipSizes, WithoutAFirstFrameAloneAreWholeLatentFrames) {
  constexpr LatentLayout kBlocks{
      .channels = 48, .spatial = 4, .temporal = 2, .first_frame_alone = false};
  EXPECT_NO_THROW(check_clip_sizes(4, 8, 8, kBlocks));
  EXPECT_THAT([&] { check_clip_sizes(5, 8, 8, kBlocks); },
              ThrowsMessage<Error>(HasSubstr("4 and 6 work")));
}

}  // namespace
}  // namespace kinema::encoders
