#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "cli/run_kinema.h"

/// Files that are not required if they cannot be written: the cache, a run's plot.
namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Unwritable : public KinemaOnCpu {
 protected:
  /// A folder below a file, which even the superuser cannot create.
  std::string no_cache() const {
    return "KINEMA_CACHE=" + quoted((folder_ / "tiny.yml/cache").string());
  }
};

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++found;
  }
  return found;
}

TEST_F(Unwritable, CacheIsAWarningOfCommandsThatCompile) {
  for (const std::string command : {"train", "generate"}) {
    SCOPED_TRACE(command);
    const Outcome outcome =
        run({command, "tiny.yml", "num_inference_steps=1", "executable_cache=on"}, no_cache());
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(count(outcome.err, "compiled programs are not cached"), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("tiny.yml/cache/programs"),
                                   HasSubstr("Not a directory"), HasSubstr("KINEMA_CACHE")));
  }
}

TEST_F(Unwritable, CacheIsWhatDoctorSaysLast) {
  const Outcome outcome = run({"doctor"}, no_cache());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("cannot be written (Not a directory)"), HasSubstr("set KINEMA_CACHE"),
                    Not(HasSubstr("nothing is missing\n"))));
  const io::Json report = io::Json::parse(run({"doctor", "--json"}, no_cache()).out, "doctor");
  EXPECT_TRUE(report.at("ok").as_bool());
  EXPECT_THAT(report.at("warning").as_string(), HasSubstr("cannot be written"));
}

// The superuser's right to write everywhere is dropped; the folder belongs to the user.
TEST_F(Unwritable, CurrentFolderIsOneThatIsNotWrittenTo) {
  const std::filesystem::path locked = folder_ / "locked";
  std::filesystem::create_directory(locked);
  std::filesystem::permissions(
      locked, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string there = std::string("env -C locked ") +
                            (geteuid() == 0 ? "setpriv --bounding-set=-dac_override" : "");
  const std::string in_folder = "cd " + quoted(folder_.string()) + " && " + there;
  ASSERT_EQ(std::system((in_folder + " ls >.out").c_str()), 0);
  ASSERT_NE(std::system((in_folder + " touch file 2>.err").c_str()), 0);
  for (const std::string command : {"train", "generate"}) {
    const Outcome outcome = run({command, "../tiny.yml", "num_inference_steps=1",
                                 "output_dir=../out", "executable_cache=../../kinema_cli_programs"},
                                there);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/tiny/samples"));
  // A path without a folder is in the current folder.
  run({"train", "../tiny.yml", "output_dir=../out", "run_name=other", "metrics_file=m.jsonl"},
      there)
      .expect_error("cannot be written to: permission denied");
}

TEST_F(Unwritable, CurveIsAWarningOnceTheRunIsOver) {
  std::filesystem::create_directories(folder_ / "out/tiny/loss.svg/in the way");
  const Outcome outcome = run({"train", "tiny.yml"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("loss.svg"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/tiny/timings.jsonl"));
}

TEST_F(Unwritable, FileAboveALimitOfSizesIsAnErrorInsteadOfASignal) {
  // 8 blocks of 512 bytes, which are too small for a checkpoint.
  run({"train", "tiny.yml"}, "ulimit -f 8 &&").expect_error("File too large");
}

}  // namespace
}  // namespace kinema::cli_test
