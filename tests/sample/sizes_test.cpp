#include "sample/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace kinema::sample {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr encoders::LatentLayout kVae{
    .channels = 16, .spatial = 8, .temporal = 4, .first_frame_alone = true};
constexpr encoders::LatentLayout kBlocks{
    .channels = 108, .spatial = 6, .temporal = 1, .first_frame_alone = false};

TEST(VideoSizes, AreTheReferencesForWansVae) {
  const VideoSizes sizes = video_sizes(81, 480, 832, kVae, {1, 2, 2});

  EXPECT_EQ(sizes.num_frames, 81);
  EXPECT_THAT(sizes.latents, ElementsAre(16, 21, 60, 104));
}

TEST(VideoSizes, RoundFramesDownToWhatTheAutoencoderHas) {
  EXPECT_EQ(video_sizes(80, 480, 832, kVae, {1, 2, 2}).num_frames, 77);
  EXPECT_EQ(video_sizes(3, 480, 832, kVae, {1, 2, 2}).num_frames, 1);
}

TEST(VideoSizes, TakeEveryFrameAsItIsWithoutTemporalBlocks) {
  const VideoSizes sizes = video_sizes(9, 24, 24, kBlocks, {1, 1, 1});

  EXPECT_EQ(sizes.num_frames, 9);
  EXPECT_THAT(sizes.latents, ElementsAre(108, 9, 4, 4));
}

TEST(VideoSizes, NameHeightsThatWork) {
  EXPECT_THAT(
      [] {
        video_sizes(81, 490, 832, kVae, {1, 2, 2});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("height is 490, expected a multiple of 16"),
                                 HasSubstr("480 and 496 work"))));
}

TEST(VideoSizes, NameWidthsThatWorkBelowTheSmallest) {
  EXPECT_THAT(
      [] {
        video_sizes(81, 480, 5, kVae, {1, 2, 2});
      },
      ThrowsMessage<Error>(HasSubstr("16 and 32 work")));
}

TEST(VideoSizes, RefuseTooFewFrames) {
  EXPECT_THAT(
      [] {
        video_sizes(0, 480, 832, kVae, {1, 2, 2});
      },
      ThrowsMessage<Error>(HasSubstr("num_frames is 0, expected 1 or more")));
  EXPECT_THAT(
      [] {
        video_sizes(3, 24, 24, {.spatial = 6, .temporal = 4, .first_frame_alone = false},
                    {1, 1, 1});
      },
      ThrowsMessage<Error>(HasSubstr("num_frames is 3, expected 4 or more")));
}

}  // namespace
}  // namespace kinema::sample
