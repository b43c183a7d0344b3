// Folders of clips in `inspect`, `train` and `prepare`.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "cli/run_kinema.h"
#include "io/scratch.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

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
    for (size_t i = 0; i < pixels.bytes.size(); ++i) {  // noise, which is large in the file
      pixels.bytes[i] = static_cast<std::byte>((i * i * 2654435761U) >> 13);
    }
    media::write_mp4(folder_ / name, pixels, {.fps = fps, .preset = "ultrafast"});
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
  EXPECT_THAT(table.out, AllOf(HasSubstr("16x32       9     16    0.56 s  noise"),
                               HasSubstr("sub/B.MP4"), HasSubstr("skipped: c.rmvb: neither")));
  EXPECT_THAT(table.out,
              HasSubstr("2 clips with captions, 1.69 s in all; 0 cannot be used, 1 file "
                        "skipped; sizes (height x width) 16x32: 2; frames a second 16: 1, 8: 1; "
                        "skipped: neither a video nor an image by its name 1"));

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

TEST_F(InspectClips, CountsEmptyCaptionsAndSaysWhatKohyasFolderNamesMean) {
  video("clips/10_fox/a.mp4");
  video("clips/10_fox/b.mp4");
  write("clips/10_fox/b.txt", "\n");
  const Outcome table = run({"inspect", "clips"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("10 of 20 clips have an empty caption, "),
                               HasSubstr("10_fox/: each clip counts 10 times an epoch")));
  const size_t first = table.out.find("10_fox/a.mp4");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(table.out.find("10_fox/a.mp4", first + 1), std::string::npos) << "one line each";
}

TEST_F(InspectClips, NamesEveryClipThatCannotBeUsed) {
  video("clips/a.mp4");
  video("clips/b.mp4");
  video("clips/c.mp4");
  fs::remove(folder_ / "clips/b.txt");
  // Corruption after the header, which only decoding finds.
  std::string bytes = read_text(folder_ / "clips/c.mp4");
  for (size_t i = bytes.find("mdat") + 700; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(0xff);
  }
  write("clips/c.mp4", bytes);
  write("clips/d.mov", "no video");
  write("clips/d.txt", "x");

  const Outcome table = run({"inspect", "clips"});
  table.expect_error("[data] clips: 2 of 4 files cannot be used");
  EXPECT_THAT(table.out, AllOf(HasSubstr("2 cannot be used"), HasSubstr("a.mp4")));
  EXPECT_EQ(run({"inspect", "clips", "--json"}).status, 1);

  const Outcome check = run({"inspect", "clips", "--check"});
  check.expect_error("[data] clips: 3 of 4 files cannot be used");
  EXPECT_THAT(check.out, AllOf(HasSubstr("b.mp4 has no caption"), HasSubstr("c.mp4"),
                               HasSubstr("d.mov"), Not(HasSubstr("a.mp4"))));
  const Outcome json = run({"inspect", "clips", "--check", "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_FALSE(io::Json::parse(json.out, "report").at("ok").as_bool());
}

TEST_F(InspectClips, NamesFoldersWithBlanksWhole) {
  video("my clips/sub one/a.mp4");
  write("my clips/sub one/x y.mp4", "");
  write("my clips/sub one/x y.txt", "x");
  const Outcome table = run({"inspect", "my clips"});
  EXPECT_EQ(table.status, 1);
  EXPECT_THAT(table.out, HasSubstr("cannot be used: sub one/x y.mp4 is empty"));
  const Outcome json = run({"inspect", "my clips", "--json"});
  const io::Json report = io::Json::parse(json.out, "report");
  EXPECT_EQ(report.at("causes").at("cannot be decoded").as_int(), 1);
  EXPECT_EQ(report.at("parts").items().at(1).at("cause").as_string(), "cannot be decoded");
}

TEST_F(InspectClips, DrawsThemAsTheTrainerSeesThem) {
  video("clips/a.mp4");
  video("clips/b.mp4");
  write("clips/b.txt",
        "Ein F\u00fcchslein \u72d0\u72f8 \u043b\u0438\u0441\u0430, und noch sehr viel mehr davon, "
        "was nicht auf eine Zeile geht");
  write("clips/c.mp4", "no video");
  write("clips/c.txt", "x");
  write("how.yml", "height: 16\nwidth: 16\nnum_frames: 5\nskip_bad_clips: true\n");
  const Outcome sheet =
      run({"inspect", "clips", "config=how.yml", "random_flip=true", "--preview", "sheet.png"});
  ASSERT_EQ(sheet.status, 0) << sheet.err;
  // As in training, unusable clips are not part of an epoch.
  EXPECT_THAT(sheet.out, HasSubstr("sheet.png: 2 of 2 samples as train sees them"));
  EXPECT_THAT(sheet.err, HasSubstr("cannot be decoded 1 (cannot read c.mp4"));
  const HostArray image = media::read_image(folder_ / "sheet.png");
  EXPECT_GT(image.shape.dims[0], 128);
  EXPECT_LE(image.shape.dims[1], 2048);
  // The same configuration gives the same sheet, another one does not.
  run({"inspect", "clips", "config=how.yml", "random_flip=true", "--preview", "again.png"});
  run({"inspect", "clips", "config=how.yml", "center_crop=false", "--preview", "other.png"});
  EXPECT_EQ(media::read_image(folder_ / "again.png").bytes, image.bytes);
  EXPECT_NE(media::read_image(folder_ / "other.png").bytes, image.bytes);
  run({"inspect", "clips", "config=how.yml"}).expect_error("is for --preview FILE.png");
  run({"inspect", "clips", "config=how.yml", "--check", "--preview", "a.png"})
      .expect_error("exclude each other");
  const Outcome stops =
      run({"inspect", "clips", "config=how.yml", "skip_bad_clips=false", "--preview", "bad.png"});
  stops.expect_error("`train` stops at 1 clip of clips that cannot be used");
  EXPECT_TRUE(fs::exists(folder_ / "bad.png"));
  run({"inspect", "how.yml", "--preview", "a.png"}).expect_error("how.yml");
}

// Whose model is not on this machine yet, as in the tutorial on photos.
TEST_F(InspectClips, DrawsPicturesOfAReleaseThatIsNotDownloaded) {
  fs::create_directories(folder_ / "photos");
  fs::copy_file(io::golden("images/orientation_6.jpg"), folder_ / "photos/a.jpg");
  write("photos/a.txt", "a fox");
  for (const char* model :
       {"stabilityai/stable-diffusion-xl-base-1.0", "black-forest-labs/FLUX.1-dev"}) {
    write("photos.yml",
          std::string("resolution: 64\npretrained_model_name_or_path: ") + model + "\n");
    const Outcome sheet = run({"inspect", "photos", "config=photos.yml", "--preview", "sheet.png"});
    EXPECT_EQ(sheet.status, 0) << sheet.err;
    EXPECT_THAT(sheet.out, HasSubstr("1 of 1 samples")) << model;
  }
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
  EXPECT_THAT(outcome.err,
              HasSubstr("data: 11 clips, 2 skipped: cannot be decoded 1, not in metadata.jsonl "
                        "1 (cannot read videos/clip_03.mp4"));
  EXPECT_THAT(outcome.err, HasSubstr("extra.AVI: not in metadata.jsonl; all in out/tiny/skipped"));
  const std::string list = read_text(folder_ / "out/tiny/skipped.jsonl");
  EXPECT_THAT(list, AllOf(HasSubstr("videos/clip_03.mp4"), HasSubstr("extra.AVI")));

  fs::remove(folder_ / "clips/extra.AVI");
  fs::remove(folder_ / "clips/videos/clip_02.mp4");
  // Several are counted, before anything is encoded.
  train({"run_name=other"}).expect_error("[data] 2 of 12 clips cannot be used");
}

TEST_F(TrainOnClips, StopsWhereMostOfThemCannotBeUsedForOneReason) {
  for (int i = 0; i < 11; ++i) {
    const int64_t frames = i < 8 ? 9 : 40;
    HostArray pixels(Shape{DType::U8, {frames, 16, 16, 3}});
    const std::string name = "few/clip " + std::to_string(i);
    fs::create_directories(folder_ / "few");
    media::write_mp4(folder_ / (name + ".mp4"), pixels, {.preset = "ultrafast"});
    write(name + ".txt", "x");
  }
  const std::vector<std::string> how = {"train_data_dir=few", "skip_bad_clips=true",
                                        "num_frames=32", "dataset_save_location=kept"};
  const auto with = [&](const std::string& word) {
    std::vector<std::string> words = how;
    words.push_back(word);
    return words;
  };
  const Outcome stopped = train(how);
  stopped.expect_error(
      "[data] 8 of 11 clips cannot be used for one reason, too short (clip 0.mp4 is "
      "too short: 9 frames, but num_frames is 32): 3 would be left");
  stopped.expect_error("num_frames=9 keeps 11 of 11; allow_dataset_shrink=true continues with 3");
  EXPECT_FALSE(fs::exists(folder_ / "kept/latents")) << "nothing was encoded";

  const Outcome by_time = train(with("target_fps=8"));
  by_time.expect_error(
      "num_frames=5 keeps 11, target_fps=0 (frames as they are stored) keeps 3 of 11");

  const Outcome buckets = train(with("buckets=[[32,16,16],[24,32,32]]"));
  buckets.expect_error("[9, 16, 16] among the buckets keeps 11 of 11");

  const Outcome prepared = run({"prepare", "tiny.yml", "dataset_type=videos", "train_data_dir=few",
                                "num_frames=32", "tfrecords_dir=records"});
  prepared.expect_error("8 of 11 clips cannot be used for one reason, too short");
  EXPECT_FALSE(fs::exists(folder_ / "records/file_00-64.tfrec"));

  const Outcome outcome = train(with("allow_dataset_shrink=true"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("data: 3 clips, 8 skipped: too short 8 ("));
  // The error without skip_bad_clips also says it.
  train({"train_data_dir=few", "num_frames=32", "run_name=other"})
      .expect_error("num_frames=9 keeps 11 of 11; skip_bad");
}

TEST_F(TrainOnClips, SaysWhatBecomesOfTransparentPicturesAndOfHdr) {
  const fs::path images = fs::path(KINEMA_SOURCE_DIR) / "tests/golden/images";
  fs::create_directories(folder_ / "pictures");
  for (const char* name : {"alpha/rgba.png", "alpha/palette.png", "hdr/pq.avif", "tiff/rgb.tiff"}) {
    const fs::path to = folder_ / "pictures" / fs::path(name).filename();
    fs::copy_file(images / name, to);
    write("pictures/" + to.stem().string() + ".txt", to.stem().string());
  }
  const std::vector<std::string> how = {"dataset_type=images", "train_data_dir=pictures",
                                        "num_frames=1", "dataset_save_location=kept"};
  const auto with = [&](const std::string& word) {
    std::vector<std::string> words = how;
    words.push_back(word);
    return words;
  };
  const Outcome white = train(how);
  ASSERT_EQ(white.status, 0) << white.err;
  EXPECT_THAT(white.err, AllOf(HasSubstr("data: 4 pictures\n"),
                               HasSubstr("data: 2 of 4 pictures have an alpha channel: transparent "
                                         "parts become white (alpha_background)"),
                               HasSubstr("data: 1 of 4 pictures is HDR (PQ or HLG): tone-mapped"),
                               HasSubstr("encoded 4 pictures and 4 captions")));
  // Cached encodings are used again, and encoded again for another background.
  EXPECT_THAT(train(with("run_name=again")).err, Not(HasSubstr("encoded")));
  std::vector<std::string> blue = with("run_name=blue");
  blue.emplace_back("alpha_background=#20c0ff");
  const Outcome other = train(blue);
  EXPECT_THAT(other.err, AllOf(HasSubstr("become #20c0ff"), HasSubstr("encoded 4 pictures")));
  EXPECT_NE(losses("blue"), losses("again"));
  EXPECT_EQ(losses("tiny"), losses("again"));
  train(with("alpha_background=pink")).expect_error("expected one of white, black, grey, #rrggbb");
}

TEST_F(TrainOnClips, ListsWhatOnlyDecodingFinds) {
  const fs::path clip = folder_ / "clips/videos/clip_03.mp4";
  HostArray noise(Shape{DType::U8, {17, 64, 64, 3}});
  for (size_t i = 0; i < noise.bytes.size(); ++i) {
    noise.bytes[i] = static_cast<std::byte>((i * i * 2654435761U) >> 13);
  }
  media::write_mp4(clip, noise, {.preset = "ultrafast"});  // with its index at the start
  std::string bytes = read_text(clip);
  for (size_t i = bytes.find("mdat") + 700; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(0xff);
  }
  write("clips/videos/clip_03.mp4", bytes);
  for (const std::string name : {"memory", "kept"}) {
    std::vector<std::string> words = {"skip_bad_clips=true", "max_train_steps=8",
                                      "run_name=" + name};
    if (name == "kept") {
      words.emplace_back("dataset_save_location=kept");
    }
    const Outcome outcome = train(words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string list = read_text(folder_ / "out" / name / "skipped.jsonl");
    EXPECT_EQ(std::ranges::count(list, '\n'), 1) << list;
    const io::Json line = io::Json::parse(list, "list");
    EXPECT_EQ(line.at("file").as_string(), "videos/clip_03.mp4");
    EXPECT_EQ(line.at("cause").as_string(), "damaged");
    EXPECT_THAT(line.at("reason").as_string(), HasSubstr("videos/clip_03.mp4"));
  }
  fs::remove(folder_ / "clips/videos/clip_02.mp4");  // found by reading the headers
  const Outcome prepared = run({"prepare", "tiny.yml", "train_data_dir=clips", "num_frames=5",
                                "tfrecords_dir=records", "--json"});
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_EQ(io::Json::parse(prepared.out, "stdout").at("left_out").dump(-1),
            R"({"missing": 1, "damaged": 1})");
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
  // Half the frame rate selects every second frame, like frame_stride=2, from the same start.
  ASSERT_EQ(train({"run_name=time", "target_fps=8", "fps=8"}).status, 0);
  ASSERT_EQ(train({"run_name=number", "frame_stride=2", "fps=8"}).status, 0);
  EXPECT_EQ(losses("time"), losses("number"));
}

TEST_F(TrainOnClips, WarnsOfEmptyCaptionsAndSaysWhatIsRepeated) {
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
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning: 20 of 30 clips have an empty caption\n"),
                                 HasSubstr("data: 10_fox/: each clip counts 10 times an epoch")));
}

}  // namespace
}  // namespace kinema::cli_test
