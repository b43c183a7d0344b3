// Folders of clips, as `inspect`, `train` and `prepare` read them.
#include <gmock/gmock.h>

#include <string>

#include "cli/run_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/video.h"

namespace kinema::cli_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class InspectClips : public KinemaTest {
 protected:
  void video(const std::string& name, double fps = 16, int64_t frames = 9) {
    fs::create_directories((folder_ / name).parent_path());
    HostArray pixels(Shape{DType::U8, {frames, 16, 32, 3}});
    for (size_t i = 0; i < pixels.bytes.size(); ++i) {  // noise, which takes room in the file
      pixels.bytes[i] = static_cast<std::byte>((i * i * 2654435761U) >> 13);
    }
    io::write_mp4(folder_ / name, pixels, {.fps = fps, .preset = "ultrafast"});
    write(fs::path(name).replace_extension(".txt"), "noise");
  }
};

TEST_F(InspectClips, IsATableOfSizesLengthsAndCaptions) {
  video("clips/a.mp4");
  video("clips/sub/B.mp4", 8);
  fs::rename(folder_ / "clips/sub/B.mp4", folder_ / "clips/sub/B.MP4");
  write("clips/c.rmvb", "");

  const Outcome table = run({"inspect", "clips"});
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("32x16       9     16    0.56 s  noise"),
                               HasSubstr("sub/B.MP4"), HasSubstr("left out: c.rmvb: neither")));
  EXPECT_THAT(table.out, HasSubstr("2 clips with captions, 1.69 s in all; 0 cannot be used, 1 file "
                                   "left out; sizes 32x16 (2); frames a second 16 (1), 8 (1)"));

  const Outcome check = run({"inspect", "clips", "--check"});
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("accepted: data set: 2 clips"));

  const Outcome json = run({"inspect", "clips", "--json"});
  const io::Json report = io::Json::parse(json.out, "report");
  const io::Json& first = report.at("parts").items().at(0);
  EXPECT_EQ(first.at("file").as_string(), "a.mp4");
  EXPECT_EQ(first.at("frames").as_int(), 9);
  EXPECT_EQ(first.at("fps").as_number(), 16);
  EXPECT_TRUE(first.at("problem").is_null());
  EXPECT_EQ(report.at("left_out").items().size(), 1U);
}

TEST_F(InspectClips, CountsEmptyCaptionsAndSaysWhatOfKohyasFoldersIsNotRead) {
  video("clips/10_fox/a.mp4");
  video("clips/10_fox/b.mp4");
  write("clips/10_fox/b.txt", "\n");
  const Outcome table = run({"inspect", "clips"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("1 of 2 clips has an empty caption, "),
                               HasSubstr("the number that 10_fox/ begins with is not read")));
}

TEST_F(InspectClips, NamesEveryClipThatCannotBeUsed) {
  video("clips/a.mp4");
  video("clips/b.mp4");
  video("clips/c.mp4");
  fs::remove(folder_ / "clips/b.txt");
  // Damage behind the header, which only decoding finds.
  std::string bytes = read_text(folder_ / "clips/c.mp4");
  for (size_t i = bytes.find("mdat") + 700; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(0xff);
  }
  write("clips/c.mp4", bytes);
  write("clips/d.mov", "no video");
  write("clips/d.txt", "x");

  const Outcome table = run({"inspect", "clips"});
  table.expect_error("[data] clips: 2 of 4 clips cannot be used");
  EXPECT_THAT(table.out, AllOf(HasSubstr("2 cannot be used"), HasSubstr("a.mp4")));
  EXPECT_EQ(run({"inspect", "clips", "--json"}).status, 1);

  const Outcome check = run({"inspect", "clips", "--check"});
  check.expect_error("[data] clips: 3 of 4 clips cannot be used");
  EXPECT_THAT(check.out, AllOf(HasSubstr("b.mp4 has no caption"), HasSubstr("c.mp4"),
                               HasSubstr("d.mov"), Not(HasSubstr("a.mp4"))));
  const Outcome json = run({"inspect", "clips", "--check", "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_FALSE(io::Json::parse(json.out, "report").at("ok").as_bool());
}

TEST_F(InspectClips, ReadsTars) {
  video("clips/a.mp4");
  ASSERT_EQ(
      std::system(
          ("cd '" + (folder_ / "clips").string() + "' && tar -cf ../a.tar a.mp4 a.txt").c_str()),
      0);
  const Outcome check = run({"inspect", "a.tar", "--check"});
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("accepted: data set: 1 clip "));
}

class TrainOnClips : public KinemaOnCpu {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    fs::copy(fs::path(KINEMA_SOURCE_DIR) / "tests/golden/dataset", folder_ / "clips",
             fs::copy_options::recursive);
    fs::remove_all(folder_ / "clips/tfrecords");
  }
  Outcome train(const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train",        "tiny.yml",         "dataset_type=videos", "train_data_dir=clips",
        "num_frames=5", "max_train_steps=1"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(TrainOnClips, SaysHowManyThereAreAndWhatIsLeftOut) {
  write("clips/extra.AVI", "");
  write("clips/videos/clip_03.mp4", "no video");
  train({}).expect_error("clip_03.mp4");
  EXPECT_FALSE(fs::exists(folder_ / "out/tiny/checkpoints"));

  const Outcome outcome = train({"skip_bad_clips=true"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("data: 11 clips, 2 left out (cannot read clip_03.mp4"));
  EXPECT_THAT(outcome.err, HasSubstr("extra.AVI: not in metadata.jsonl; all in out/tiny/skipped"));
  const std::string list = read_text(folder_ / "out/tiny/skipped.jsonl");
  EXPECT_THAT(list, AllOf(HasSubstr("videos/clip_03.mp4"), HasSubstr("extra.AVI")));

  fs::remove(folder_ / "clips/extra.AVI");
  fs::remove(folder_ / "clips/videos/clip_02.mp4");
  // Several at once are counted, before anything is encoded.
  train({"run_name=other"}).expect_error("[data] 2 of 12 clips cannot be used");
}

TEST_F(TrainOnClips, WarnsOfRatesAndOfSmallClips) {
  const Outcome slow = train({"fps=32", "height=160", "width=160"});
  ASSERT_EQ(slow.status, 0) << slow.err;
  EXPECT_THAT(slow.err, HasSubstr("warning: clips have 16 frames a second, videos are made with 32 "
                                  "(fps): they train at 2 times their speed; target_fps=32"));
  EXPECT_THAT(slow.err, HasSubstr("12 clips become more than twice as large as they are"));
  const Outcome right = train({"run_name=right"});
  EXPECT_THAT(right.err, AllOf(HasSubstr("data: 12 clips\n"), Not(HasSubstr("warning"))));

  train({"target_fps=8", "frame_stride=2"}).expect_error("target_fps 8");
  // Half the frames: every second one, as frame_stride=2 takes them, from the same place.
  ASSERT_EQ(train({"run_name=time", "target_fps=8", "fps=8"}).status, 0);
  ASSERT_EQ(train({"run_name=number", "frame_stride=2", "fps=8"}).status, 0);
  EXPECT_EQ(losses("time"), losses("number"));
}

TEST_F(TrainOnClips, WarnsOfEmptyCaptionsAndOfNumbersThatAreNotRead) {
  fs::create_directories(folder_ / "clips/10_fox");
  fs::remove(folder_ / "clips/metadata.jsonl");
  fs::remove(folder_ / "clips/metadata.csv");
  for (const char* name : {"clip_00", "clip_01", "clip_02"}) {
    fs::rename(folder_ / "clips/videos" / (std::string(name) + ".mp4"),
               folder_ / "clips/10_fox" / (std::string(name) + ".mp4"));
    write("clips/10_fox/" + std::string(name) + ".caption",
          name == std::string("clip_01") ? "x" : "");
  }
  fs::remove_all(folder_ / "clips/videos");
  const Outcome outcome = train({});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("warning: 2 of 3 clips have an empty caption\n"),
                    HasSubstr("data: the number that 10_fox/ begins with is not read")));
}

}  // namespace
}  // namespace kinema::cli_test
