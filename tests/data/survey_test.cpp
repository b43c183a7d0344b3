// Clips as they are read, and the survey of a folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/clip_folder.h"
#include "io/remux.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/hf_clips.h"
#include "kinema/data/metadata.h"
#include "kinema/data/survey.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;
using io::golden;
using io::Scratch;
using io::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Pairs = std::map<std::string, std::string>;
TEST(ReadClip, KeepsTheSpeedAtARateOfItsOwn) {
  const ClipFolder folder;
  folder.video("a.mp4", 30, 30);  // one second
  const auto clips = folder_clips(folder.path(), "text");
  const auto steps = [&](const ClipFormat& format, const ClipWindow& window) {
    std::vector<int64_t> out;
    const HostArray pixels = clips->read(0, format, window);
    const int64_t plane = format.height * format.width;
    for (int64_t f = 0; f < format.num_frames; ++f) {
      const float level = pixels.as<float>()[static_cast<size_t>(f * plane)];
      out.push_back(std::lround(((level + 1) * 127.5F - 20) / 10));
    }
    return out;
  };
  const ClipFormat by_number{.height = 16, .width = 32, .num_frames = 5};
  ClipFormat by_time = by_number;
  by_time.fps = 10;

  EXPECT_THAT(steps(by_number, {.start = 0.0F}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(steps(by_time, {.start = 0.0F}), ElementsAre(0, 3, 6, 9, 12));
  // Ten frames of 0.1 s: the middle five begin at the third.
  EXPECT_THAT(steps(by_time, {}), ElementsAre(6, 9, 12, 15, 18));
  EXPECT_EQ(frames_in(clips->measure(0), by_time), 10);
  by_time.num_frames = 11;
  EXPECT_THAT([&] { clips->read(0, by_time, {}); },
              ThrowsMessage<Error>(
                  HasSubstr("is too short: 10 frames at target_fps 10 (in the file 30 at 30 "
                            "frames a second), but num_frames is 11")));
}

TEST(ReadClip, MakesPixelsSquare) {
  const ClipFolder folder;
  folder.video("a.mp4", 2, 16, 16, 32);
  io::remux(folder / "a.mp4", folder / "wide.mp4", {.pixel_width = 2, .pixel_height = 1});
  write_file(folder / "wide.txt", "x");
  const auto clips = folder_clips(folder.path(), "text");

  EXPECT_EQ(clips->measure(0).width, 32);
  EXPECT_EQ(clips->measure(1).width, 64);
  EXPECT_EQ(clips->measure(1).height, 16);

  // Frames of 2 x 4 pixels with a pixel aspect ratio of 2: 2 x 8, of which 2 x 2 keeps the middle
  // quarter, half each of columns 1 and 2.
  HostArray frames(Shape{DType::U8, {1, 2, 4, 3}});
  for (size_t i = 0; i < frames.bytes.size(); ++i) {
    frames.as<uint8_t>()[i] = static_cast<uint8_t>(i / 3 % 4 * 80);
  }
  const HostArray square = fit_frames(frames, 2, 4, std::nullopt, 2);
  const HostArray plain = fit_frames(frames, 2, 4);
  const auto level = [](const HostArray& array, size_t x) {
    return std::lround((array.as<float>()[x] + 1) * 127.5F);
  };
  EXPECT_EQ(level(plain, 0), 0);
  EXPECT_EQ(level(plain, 3), 240);
  // Bilinear with pixel centres at half: columns 2 to 5 of 8 are at 0.75, 1.25, 1.75, 2.25 of 4.
  EXPECT_EQ(level(square, 0), 60);
  EXPECT_EQ(level(square, 1), 100);
  EXPECT_EQ(level(square, 2), 140);
  EXPECT_EQ(level(square, 3), 180);
}

TEST(Survey, FindsEveryClipThatCannotBeUsed) {
  const ClipFolder folder;
  folder.video("good.mp4", 17, 16);
  folder.video("short.mp4", 3, 16);
  folder.clip("silent.mp4");
  io::remux(folder / "good.mp4", folder / "sound.avi", {.audio_only = true});
  folder.text("sound.txt", "x");
  folder.text("broken.mp4", "no video");
  folder.text("broken.txt", "x");
  const auto clips = folder_clips(folder.path(), "text", /*keep_bad=*/true);

  const Survey survey = survey_clips(
      *clips, {.clips = clips->size(), .format = {.height = 16, .width = 32, .num_frames = 9}});

  ASSERT_EQ(survey.problems.size(), 5U);
  EXPECT_EQ(survey.bad(), 4);
  std::map<std::string, std::string> why;
  for (int64_t i = 0; i < clips->size(); ++i) {
    why[clips->name(i)] = short_reason(*clips, i, survey.problems[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(why["sound.avi"], "sound.avi has no video stream that can be decoded");
  EXPECT_EQ(why["short.mp4"], "short.mp4 is too short: 3 frames, but num_frames is 9");
  EXPECT_THAT(why["broken.mp4"], HasSubstr("cannot read broken.mp4: "));
  EXPECT_THAT(why["silent.mp4"], HasSubstr("silent.mp4 has no caption: silent.txt is not there"));
  EXPECT_EQ(survey_clips(*clips, {.clips = clips->size(), .any_length = true}).bad(), 3);
}

TEST(Survey, CountsWhatIsLeftOutByCause) {
  const ClipFolder folder;
  folder.video("a.mp4", 9, 16);
  folder.video("b.mp4", 3, 16);
  folder.video("c.mp4", 4, 16);
  folder.image("d.png");
  folder.clip("silent.mp4");
  folder.captioned("latin.mp4", "caf\xe9");
  folder.captioned("book.mp4", std::string((size_t{1} << 20) + 1, 'x'));  // longer than is read
  folder.text("broken.mp4", "no video");
  folder.text("broken.txt", "x");
  folder.text("e.rmvb", "");
  folder.text("f.rmvb", "");
  folder.text("g.heic", "");
  const auto clips = folder_clips(folder.path(), "text", /*keep_bad=*/true);

  const Survey survey = survey_clips(
      *clips, {.clips = clips->size(), .format = {.height = 16, .width = 32, .num_frames = 9}});

  Pairs counts;
  for (const CauseCount& each : count_causes(survey)) {
    counts[each.cause] = std::to_string(each.count);
  }
  EXPECT_EQ(counts, (Pairs{{"too short", "2"},
                           {"neither a video nor an image by its name", "2"},
                           {"a picture", "1"},
                           {"no caption", "1"},
                           {"caption is not UTF-8", "1"},
                           {"caption cannot be read", "1"},
                           {"cannot be decoded", "1"},
                           {"a HEIC picture, which is not supported", "1"}}));
  EXPECT_EQ(count_causes(survey).front().count, 2) << "the most frequent first";
}

TEST(UnreadPictures, AreCountedWhereAFolderHoldsNothingElse) {
  const Scratch scratch;
  for (const char* name : {"a.heic", "b.HEIC", "c.jxl"}) {
    io::write_file(scratch / name, "x");
  }
  const char* found = "it holds 2 HEIC pictures and 1 JPEG XL picture, which are not read: convert";
  EXPECT_THAT([&] { list_clips(scratch.path(), "text"); }, ThrowsMessage<Error>(HasSubstr(found)));
  EXPECT_THAT([&] { tfrecord_source({.folder = scratch.path()}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("holds no TFRecords"), HasSubstr(found))));
}

TEST(UnreadFiles, NameAnArchive) {
  const Scratch scratch;
  io::write_file(scratch / "photos.zip", "PK\x03\x04");
  EXPECT_THAT([&] { list_clips(scratch.path(), "text"); },
              ThrowsMessage<Error>(
                  HasSubstr("it holds photos.zip, an archive, which is not read: unpack it")));
  EXPECT_THAT([&] { list_clips(scratch / "photos.zip", "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("is not a folder"), HasSubstr("unpack it"))));
  io::write_file(scratch / "photos", "PK\x03\x04");
  EXPECT_THAT([&] { list_clips(scratch / "photos", "text"); },
              ThrowsMessage<Error>(HasSubstr("photos is a ZIP archive, expected a folder")));
}

TEST(Survey, NamesTheFramesThatKeepNineInTenClips) {
  Survey survey;
  for (int64_t frames = 20; frames < 40; ++frames) {  // 20 clips
    survey.sizes.push_back({.frames = frames, .height = 16, .width = 16, .fps = 24});
    survey.problems.emplace_back("too short");
    survey.causes.emplace_back(kTooShort);
  }
  survey.sizes.push_back({});
  survey.problems.emplace_back("no video");
  survey.causes.emplace_back("cannot be decoded");
  const ClipFormat format{.height = 16, .width = 16, .num_frames = 81};
  const auto of_wan = [](int64_t frames) { return frames % 4 == 1; };

  const auto fewer = suggested_num_frames(survey, format, of_wan);
  ASSERT_TRUE(fewer);
  EXPECT_EQ(fewer->num_frames, 21) << "22 frames have 18 of 20, and 21 is what the model takes";
  EXPECT_EQ(fewer->clips, 19);
  EXPECT_EQ(long_enough(survey, {.num_frames = 30}), 10);
  ClipFormat far = format;
  far.frame_stride = 4;
  EXPECT_EQ(suggested_num_frames(survey, far, of_wan)->num_frames, 5);
  EXPECT_FALSE(suggested_num_frames(survey, format, [](int64_t) { return false; }));
}

TEST(Survey, NamesFilesWhole) {
  const ClipFolder folder;
  for (const char* name : {"one two three/x.mp4", "one two three/b c/a clip.mp4"}) {
    folder.text(name, "");
    folder.text(fs::path(name).replace_extension(".txt"), "x");
  }
  folder.clip("my clips/d.mp4");
  for (const fs::path& root : {folder.path(), folder / "one two three"}) {
    const auto clips = folder_clips(root, "text", /*keep_bad=*/true);
    const Survey survey = survey_clips(*clips, {.clips = clips->size(), .any_length = true});
    for (int64_t clip = 0; clip < clips->size(); ++clip) {
      const std::string where = clips->where(clip);
      EXPECT_THAT(
          short_reason(*clips, clip, survey.problems[static_cast<size_t>(clip)]),
          ::testing::AnyOf(where + " is empty", ::testing::StartsWith(where + " has no caption"),
                           ::testing::StartsWith("cannot read " + where)));
    }
  }
}

TEST(ReadClip, FillsTransparentPartsBeforeItIsResampled) {
  const ClipFolder folder;
  fs::copy_file(golden("images/alpha/rgba.png"), folder / "a.png");
  fs::copy_file(golden("images/alpha/rgba.png.white.png"), folder / "white.png");
  fs::copy_file(golden("images/alpha/rgba.png.20c0ff.png"), folder / "blue.png");
  fs::copy_file(golden("images/alpha/rgba.png.drop.png"), folder / "drop.png");
  ClipFormat format{.height = 5, .width = 7, .num_frames = 1};
  for (const auto& [word, name] :
       {std::pair{"white", "white.png"}, std::pair{"#20c0ff", "blue.png"},
        std::pair{"drop", "drop.png"}}) {
    format.background = media::read_background(word);
    EXPECT_EQ(read_clip(folder / "a.png", format).bytes, read_clip(folder / name, format).bytes)
        << word;
  }
  const auto bytes = io::read_text(folder / "a.png");
  EXPECT_TRUE(measure_clip(std::as_bytes(std::span(bytes)), "a.png").has_alpha);
}

TEST(Survey, CountsCaptionsWithoutWords) {
  const ClipFolder folder;
  folder.captioned("a.mp4", "");
  folder.captioned("b.mp4", " \n");
  folder.captioned("c.mp4", "words");
  folder.text("d.mp4", "no video");
  folder.text("d.txt", "");
  const auto clips = folder_clips(folder.path(), "text", /*keep_bad=*/true);
  EXPECT_EQ(survey_clips(*clips, {.clips = 4, .any_length = true}).empty_captions, 2);
}

TEST(Survey, CountsRatesAndEnlargement) {
  const ClipFolder folder;
  folder.video("a.mp4", 9, 30);
  folder.video("b.mp4", 9, 29.97);
  folder.video("c.mp4", 9, 16);
  folder.image("d.png");
  const auto clips = folder_clips(folder.path(), "text");
  const Survey survey = survey_clips(*clips, {.clips = 4, .any_length = true});

  const std::vector<Rate> rates = frame_rates(survey);
  ASSERT_EQ(rates.size(), 3U) << "29.97 is not 30";
  EXPECT_NEAR(rates[0].fps, 30, 1e-6);
  EXPECT_NEAR(rates[1].fps, 29.97, 1e-3);
  EXPECT_NEAR(rates[2].fps, 16, 1e-6);
  EXPECT_DOUBLE_EQ(enlargement(survey.sizes[0], {.height = 64, .width = 64}), 4);
}

TEST(Survey, ChoosesBucketsByTheFramesThatARateGives) {
  const ClipFolder folder;
  folder.video("a.mp4", 30, 30);
  const auto clips = folder_clips(folder.path(), "text");
  const std::vector<Bucket> buckets = {{9, 16, 32}, {17, 16, 32}, {29, 16, 32}};
  const auto chosen = [&](double fps) {
    return survey_clips(*clips, {.clips = 1, .format = {.fps = fps}, .buckets = buckets})
        .buckets.bucket_of.at(0);
  };
  EXPECT_EQ(chosen(0), 2);
  EXPECT_EQ(chosen(16), 0);
  EXPECT_EQ(chosen(20), 1);
}

}  // namespace
}  // namespace kinema::data
