// Output files of commands never replace a file of another kind.
#include <gmock/gmock.h>

#include <sys/stat.h>

#include "cli/run_kinema.h"
#include "io/scratch.h"
#include "kinema/media/image.h"

namespace kinema::cli_test {
namespace {

using ::testing::HasSubstr;

class Outputs : public KinemaTest {
 protected:
  void SetUp() override {
    KinemaTest::SetUp();
    write("notes.txt", "a caption");
    write("tiny.yml", tiny_config());
  }
  void expect_kept(const std::vector<std::string>& command) {
    run(command).expect_error("notes.txt exists and is not ");
    EXPECT_EQ(read_text(folder_ / "notes.txt"), "a caption");
  }
};

TEST_F(Outputs, AreNoPicturesOfSamplesInThePlaceOfOtherFiles) {
  std::filesystem::create_directories(folder_ / "pictures");
  std::filesystem::copy_file(io::golden("images/orientation_6.jpg"), folder_ / "pictures/a.jpg");
  write("pictures/a.txt", "a fox");
  const std::vector<std::string> preview{"inspect",      "pictures",  "config=tiny.yml",
                                         "num_frames=1", "--preview", "notes.txt"};
  expect_kept(preview);
  std::vector<std::string> other = preview;
  other.back() = "sheet.png";
  EXPECT_EQ(run(other).status, 0);
  EXPECT_EQ(run(other).status, 0) << "a sheet takes the place of a sheet";
  media::write_png(folder_ / "photo.png", HostArray(Shape{DType::U8, {4, 4, 3}}));
  const std::string photo = read_text(folder_ / "photo.png");
  other.back() = "photo.png";
  run(other).expect_error("photo.png exists and is not a sheet of --preview");
  EXPECT_EQ(read_text(folder_ / "photo.png"), photo);
  other.back() = "pictures/sheet.png";
  run(other).expect_error("of which it would be a sample");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.png").c_str(), 0600), 0);
  other.back() = "pipe.png";
  run(other).expect_error("it is a device, pipe or socket");
  other.back() = "sheet.jpg";
  run(other).expect_error("expected a name that ends with .png");
}

TEST_F(Outputs, AreNoCurvesInThePlaceOfOtherFiles) {
  write("run/metrics.jsonl", "{\"step\": 0, \"learning/loss\": 1.0}\n");
  expect_kept({"compare", "run", "run", "--svg", "notes.txt"});
  write("drawing.svg", "<svg/>");
  run({"compare", "run", "run", "--svg", "drawing.svg"})
      .expect_error("drawing.svg exists and is not curves of kinema compare");
  EXPECT_EQ(run({"compare", "run", "run", "--svg", "curves.svg"}).status, 0);
  EXPECT_EQ(run({"compare", "run", "run", "--svg", "curves.svg"}).status, 0);
}

TEST_F(Outputs, AreNoEpisodesInThePlaceOfOtherFiles) {
  for (const char* option : {"--video", "--sheet"}) {
    run({"agent", "play", "run", option, "notes.txt"})
        .expect_error("notes.txt exists: it is not overwritten");
  }
  EXPECT_EQ(read_text(folder_ / "notes.txt"), "a caption");
}

TEST_F(Outputs, AreNoProgramsInThePlaceOfOtherFiles) {
  expect_kept({"plan", "tiny.yml", "target=cpu", "save_executable=notes.txt"});
}

TEST_F(Outputs, LeaveAConfigurationOfTheUsersInTheRunFolder) {
  const std::string own = "# my notes\n" + std::string(tiny_config());
  write("out/tiny/config.yml", own);
  run({"train", "out/tiny/config.yml", "max_train_steps=1"})
      .expect_error("out/tiny/config.yml exists and is not a config.yml of kinema train");
  EXPECT_EQ(read_text(folder_ / "out/tiny/config.yml"), own);
}

TEST_F(Outputs, SayWhereTheSettingsOfAVideoAre) {
  write("a.mp4", "x");
  write("b.jpg", "x");
  write("c.webm", "x");
  write("a.json", "{}");
  run({"generate", "a.mp4"}).expect_error("they are in a.json: kinema generate a.json");
  run({"generate", "b.jpg"}).expect_error("b.jpg is not a PNG, JPEG or WebP");
  run({"generate", "c.webm"}).expect_error("kinema writes them to a .json next to each video");
}

TEST_F(Outputs, SayThatAKeyIsGivenTwice) {
  EXPECT_THAT(run({"config", "tiny.yml", "seed=1", "seed=2"}).err,
              HasSubstr("seed is given more than once: the last value is used"));
}

}  // namespace
}  // namespace kinema::cli_test
