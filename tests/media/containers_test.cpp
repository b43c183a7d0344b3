// Videos from other programs: other containers, time stamps and pixel formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "io/remux.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/video.h"

namespace kinema::media {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Uniform grey frames, each 10 levels lighter than the last, in an mp4 whose packets are in order.
void write_steps(const std::filesystem::path& path, int64_t frames, double fps,
                 int64_t width = 32) {
  HostArray out(Shape{DType::U8, {frames, 16, width, 3}});
  const size_t each = static_cast<size_t>(16 * width * 3);
  for (size_t i = 0; i < out.bytes.size(); ++i) {
    out.as<uint8_t>()[i] = static_cast<uint8_t>(20 + 10 * (i / each));
  }
  write_mp4(path, out, {.fps = fps, .crf = 4, .preset = "ultrafast"});
}

/// The step that each frame shows.
std::vector<int64_t> steps(const Video& video) {
  std::vector<int64_t> out;
  const int64_t each = video.frames.shape.elements() / video.frames.shape.dims[0];
  for (int64_t f = 0; f < video.frames.shape.dims[0]; ++f) {
    const double level = video.frames.as<uint8_t>()[static_cast<size_t>(f * each)];
    out.push_back(std::lround((level - 20) / 10));
  }
  return out;
}

TEST(Containers, HaveTheSameFramesInAnyFormat) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 9, 16);
  const Video expected = read_video(scratch / "a.mp4");
  for (const char* name : {"a.mov", "a.mkv", "a.ts", "a.flv", "a.3gp"}) {
    SCOPED_TRACE(name);
    io::remux(scratch / "a.mp4", scratch / name);

    const VideoProbe probe = probe_video(scratch / name);
    EXPECT_EQ(probe.frames, 9);
    EXPECT_NEAR(probe.fps, 16, 0.01);
    EXPECT_NEAR(probe.seconds, 9.0 / 16, 0.002);
    EXPECT_FALSE(probe.variable_rate);
    EXPECT_EQ(read_video(scratch / name).frames.bytes, expected.frames.bytes);
    EXPECT_EQ(steps(read_video(scratch / name, {.fps = 16})), steps(expected));
  }
}

TEST(Containers, NamesTruncatedMatroska) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 9, 16);
  io::remux(scratch / "a.mp4", scratch / "a.mkv");
  std::filesystem::resize_file(scratch / "a.mkv",
                               std::filesystem::file_size(scratch / "a.mkv") * 3 / 4);
  const auto truncated = testing::ThrowsMessage<Error>(testing::HasSubstr("is truncated"));
  EXPECT_THAT([&] { read_video(scratch / "a.mkv"); }, truncated);
  EXPECT_THAT([&] { probe_video(scratch / "a.mkv"); }, truncated);
}

TEST(Containers, AreKnownByTheirBytes) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 3, 16);
  io::remux(scratch / "a.mp4", scratch / "a.mkv");
  std::filesystem::rename(scratch / "a.mkv", scratch / "a.MP4");

  EXPECT_EQ(read_video(scratch / "a.MP4").frames.shape.dims[0], 3);
}

TEST(Containers, WithSoundAloneAreNamed) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 3, 16);
  io::remux(scratch / "a.mp4", scratch / "sound.avi", {.audio_only = true});

  EXPECT_THAT([&] { probe_video(scratch / "sound.avi"); },
              ThrowsMessage<Error>(HasSubstr("sound.avi has no video stream")));
}

TEST(Containers, CannotReferToOtherFiles) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 3, 16);
  io::write_file(scratch / "list.mp4",
                 "ffconcat version 1.0\nfile '" + (scratch / "a.mp4").string() + "'\n");
  EXPECT_THROW(read_video(scratch / "list.mp4"), Error);
}

TEST(Containers, SayTheShapeOfTheirPixels) {
  const io::Scratch scratch;
  write_steps(scratch / "square.mp4", 2, 16);
  io::remux(scratch / "square.mp4", scratch / "wide.mp4", {.pixel_width = 4, .pixel_height = 3});
  io::remux(scratch / "square.mp4", scratch / "wide.mkv", {.pixel_width = 4, .pixel_height = 3});
  io::remux(scratch / "square.mp4", scratch / "wild.mp4", {.pixel_width = 500, .pixel_height = 1});

  EXPECT_EQ(read_video(scratch / "square.mp4").pixel_aspect, 1);
  for (const char* name : {"wide.mp4", "wide.mkv"}) {
    EXPECT_NEAR(read_video(scratch / name).pixel_aspect, 4.0 / 3, 1e-2) << name;
    EXPECT_NEAR(probe_video(scratch / name).pixel_aspect, 4.0 / 3, 1e-2) << name;
  }
  EXPECT_EQ(read_video(scratch / "wild.mp4").pixel_aspect, 1) << "no film has such pixels";
}

TEST(Rates, ChooseTheFrameThatIsShownAtEachTime) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 15, 30);  // half a second

  // At k / 16 s the frame floor(30 k / 16) is shown; the video ends after half a second.
  const std::vector<int64_t> expected = {0, 1, 3, 5, 7, 9, 11, 13};
  EXPECT_EQ(steps(read_video(scratch / "a.mp4", {.fps = 16})), expected);
  EXPECT_THAT(steps(read_video(scratch / "a.mp4", {.first_frame = 3, .fps = 16, .max_frames = 2})),
              ElementsAre(5, 7));
  EXPECT_THAT(steps(read_video(scratch / "a.mp4", {.fps = 10})), ElementsAre(0, 3, 6, 9, 12));
  // mkv rounds to milliseconds, which changes nothing.
  io::remux(scratch / "a.mp4", scratch / "a.mkv");
  EXPECT_EQ(steps(read_video(scratch / "a.mkv", {.fps = 16})), expected);
  EXPECT_THAT(steps(read_video(scratch / "a.mkv", {.fps = 15})),
              ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
}

TEST(Rates, RepeatFramesOfSlowerVideos) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 4, 8);

  EXPECT_THAT(steps(read_video(scratch / "a.mp4", {.fps = 16})),
              ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST(Rates, FollowTheTimeStampsOfVariableRates) {
  const io::Scratch scratch;
  write_steps(scratch / "a.mp4", 8, 16);
  // Four frames in the first quarter of a second, then one every quarter.
  io::remux(scratch / "a.mp4", scratch / "a.mkv", {.time = [](int64_t i) {
              return i < 4 ? 0.0625 * static_cast<double>(i) + 0.0005
                           : 0.25 * static_cast<double>(i - 3) + 0.0005;
            }});

  const VideoProbe probe = probe_video(scratch / "a.mkv");
  EXPECT_EQ(probe.frames, 8);
  EXPECT_NEAR(probe.seconds, 1.0625, 0.01);
  EXPECT_TRUE(probe.variable_rate);
  EXPECT_NEAR(probe.fps, 8 / 1.0625, 0.1) << "on the average";
  EXPECT_THAT(steps(read_video(scratch / "a.mkv", {.fps = 8, .max_frames = 9})),
              ElementsAre(0, 2, 4, 4, 5, 5, 6, 6, 7));
}

}  // namespace
}  // namespace kinema::media
