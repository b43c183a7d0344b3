// Run by mpirun with two processes, which sample a run's newest checkpoint while it is training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/run_kinema.h"
#include "kinema/jobs/shared_generation.h"
#include "kinema/kinema.h"
#include "world/test_world.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Checkpoint 2 of a run of 4 steps is in place, and 4 is in another folder.
class SharedGeneration : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* plugin = std::getenv("KINEMA_PJRT_CPU");
    if (plugin == nullptr || !fs::exists(plugin)) {
      GTEST_SKIP() << "no CPU plugin: KINEMA_PJRT_CPU names none";
    }
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string own =
        ::testing::TempDir() + "kinema_shared_" + test->name() + "_" + std::to_string(getpid());
    folder_ = meet(own).front();
    if (is_first()) {
      fs::create_directories(folder_);
      std::ofstream(folder_ / "tiny.yml")
          << cli_test::tiny_config() << "checkpoint_every: 2\ncheckpoints_to_keep: 0\n";
    }
    meet();
    before_ = fs::current_path();
    fs::current_path(folder_);
    if (is_first()) {
      train(load_config("tiny.yml", {}, {}));
      fs::rename(checkpoints() / "4", folder_ / "aside");
    }
    meet();
  }
  void TearDown() override {
    if (folder_.empty()) {
      return;
    }
    meet();
    fs::current_path(before_);
    if (is_first()) {
      fs::remove_all(folder_);
    }
  }

  static world::World& world() { return world::test_world(); }
  static std::shared_ptr<world::World> shared() {
    return {&world(), [](world::World*) {}};
  }
  static bool is_first() { return world().is_first(); }
  static std::vector<std::string> meet(const std::string& own = "") {
    return world().communicator().gather(own, {.what = "the test", .seconds = 300});
  }
  fs::path checkpoints() const { return folder_ / "out/tiny/checkpoints"; }
  /// Simulates the progress of the training.
  void go_on() const {
    if (fs::exists(checkpoints() / "2")) {
      fs::rename(folder_ / "aside", checkpoints() / "4");
      fs::remove_all(checkpoints() / "2");
    }
  }
  void expect_newest(const std::vector<std::string>& words, GenerateObserver observer) const {
    std::vector<std::string> said;
    observer.on_notice = [&](const std::string& line) { said.push_back(line); };
    std::vector<std::string> all{"num_videos_per_prompt=2", "prompt=a square"};
    all.insert(all.end(), words.begin(), words.end());
    const GenerateResult made =
        generate(load_config("tiny.yml", all, {}), observer, {.world = shared()});
    EXPECT_THAT(made.transformer.string(), HasSubstr("checkpoints/4/"));
    if (is_first()) {
      EXPECT_EQ(made.videos.size(), 2U);
      EXPECT_THAT(said, Contains(HasSubstr("the newest checkpoint is used instead")));
    }
  }

  fs::path folder_;
  fs::path before_;
};

// Process 0 has made its video before process 1 reads the weights.
TEST_F(SharedGeneration, TakesTheNewestAgainWhereOneOfThemLosesTheCheckpoint) {
  GenerateObserver observer;
  if (is_first()) {
    observer.on_step = [&](int64_t done, int64_t total) {
      if (done == total) {
        std::ofstream(folder_ / "made") << "";
      }
    };
  } else {
    observer.on_start = [&](const GenerateStart& /*start*/) {
      for (int i = 0; i < 1000 && !fs::exists(folder_ / "made"); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      go_on();
    };
  }
  expect_newest({}, observer);
}

TEST_F(SharedGeneration, TakesTheNewestAgainWhereAllMakeAVideoTogether) {
  GenerateObserver observer;
  if (is_first()) {
    observer.on_start = [&](const GenerateStart& /*start*/) { go_on(); };
  }
  expect_newest({"ici_fsdp_parallelism=2"}, observer);
}

TEST_F(SharedGeneration, IsToldInAllThatOneOfThemLostTheCheckpoint) {
  const Job job({}, {.world = shared()});
  const auto fails_in_one = [] { check(is_first(), "it cannot be read"); };
  EXPECT_THROW(jobs::read_together(checkpoints() / "7", fails_in_one, job),
               model_source::CheckpointRemoved);
  const auto read = [&] { jobs::read_together(checkpoints() / "2", fails_in_one, job); };
  if (is_first()) {
    EXPECT_NO_THROW(read());
  } else {
    EXPECT_THAT(read, ThrowsMessage<Error>("it cannot be read"));
  }
}

}  // namespace
}  // namespace kinema::jobs_test
