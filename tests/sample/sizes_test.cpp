#include "kinema/sample/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

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

TEST(VideoSizes, MakeOtherNumbersOfFramesWhatTheReferenceMakesOfThem) {
  const auto frames = [](int64_t n) {
    return video_sizes(n, 480, 832, kVae, {1, 2, 2}).num_frames;
  };
  EXPECT_EQ(frames(79), 77);
  EXPECT_EQ(frames(80), 81);
  EXPECT_EQ(frames(83), 81);
  EXPECT_EQ(frames(84), 85);
  EXPECT_EQ(frames(3), 1);
  EXPECT_EQ(frames(1), 1);
}

TEST(VideoSizes, EndWhereTheModelHasNoPositions) {
  EXPECT_THAT(
      [] {
        video_sizes(4101, 480, 832, kVae, {1, 2, 2});
      },
      ThrowsMessage<Error>(HasSubstr("1024 latent frames: at most 4093")));
  EXPECT_EQ(video_sizes(4093, 480, 832, kVae, {1, 2, 2}).latents[1], 1024);
  EXPECT_THAT(
      [] {
        video_sizes(81, 480, 16400, kVae, {1, 2, 2});
      },
      ThrowsMessage<Error>(HasSubstr("at most 16384")));
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
