#include "kinema/checkpoints/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <stop_token>
#include <thread>

#include "io/scratch.h"
#include "kinema/checkpoints/run_lock.h"
#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"

namespace kinema::checkpoints {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

void write_tensor(const fs::path& path, float value) {
  const HostArray array = HostArray::f32({4}, std::vector<float>{1.0F, 2.0F, value, 4.0F});
  io::write_safetensors(path, std::vector{io::TensorEntry::of("blocks.0.w", array)});
}

/// A checkpoint with a tensor in a subfolder and a text file.
void fill(const fs::path& folder) {
  fs::create_directories(folder / "transformer");
  write_tensor(folder / "transformer" / "w.safetensors", 3.0F);
  std::ofstream(folder / "train_state.json") << "{}\n";
}

TEST(CheckpointFolder, FindsTheNewestValidOne) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints");
  EXPECT_FALSE(checkpoints.newest().step.has_value());

  checkpoints.write(2, fill);
  checkpoints.write(10, fill);

  EXPECT_THAT(checkpoints.steps(), ElementsAre(2, 10));
  EXPECT_EQ(checkpoints.newest().step, 10);
  EXPECT_EQ(checkpoints.newest().folder, scratch / "checkpoints" / "10");
}

/// How a test damages the newer of two checkpoints, and the expected message.
struct Tampering {
  const char* name;
  void (*apply)(const fs::path& folder);
  const char* reason;
};

class Tampered : public testing::TestWithParam<Tampering> {};

TEST_P(Tampered, IsPassedOverForTheOneBefore) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints");
  checkpoints.write(1, fill);
  checkpoints.write(2, fill);

  GetParam().apply(checkpoints.path(2));
  const Found found = checkpoints.newest();

  EXPECT_EQ(found.step, 1);
  ASSERT_EQ(found.corrupt.size(), 1);
  EXPECT_EQ(found.corrupt[0].folder, checkpoints.path(2));
  EXPECT_THAT(found.corrupt[0].reason, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    CheckpointFolder, Tampered,
    testing::Values(
        Tampering{"NoManifest", [](const fs::path& f) { fs::remove(f / "manifest.json"); },
                  "no manifest.json"},
        Tampering{"BrokenManifest",
                  [](const fs::path& f) { fs::resize_file(f / "manifest.json", 20); },
                  "manifest.json"},
        Tampering{"MissingFile",
                  [](const fs::path& f) { fs::remove(f / "transformer" / "w.safetensors"); },
                  "is missing"},
        Tampering{
            "TruncatedFile",
            [](const fs::path& f) { fs::resize_file(f / "transformer" / "w.safetensors", 40); },
            "has 40 bytes"},
        Tampering{"ChangedByte",
                  [](const fs::path& f) {
                    std::fstream file(f / "transformer" / "w.safetensors",
                                      std::ios::in | std::ios::out | std::ios::binary);
                    file.seekp(-1, std::ios::end);
                    file.put('\x41');
                  },
                  "does not match its checksum"},
        Tampering{"AddedFile", [](const fs::path& f) { std::ofstream(f / "new.txt") << "x"; },
                  "not in its manifest"}),
    [](const auto& info) { return info.param.name; });

TEST(CheckpointFolder, NeverPublishesATensorThatIsNotFinite) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints");
  checkpoints.write(1, fill);

  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    SCOPED_TRACE(bad);
    EXPECT_THAT(
        [&] {
          checkpoints.write(2, [&](const fs::path& f) { write_tensor(f / "w.safetensors", bad); });
        },
        ThrowsMessage<Error>(HasSubstr("blocks.0.w is not finite")));
    EXPECT_THAT(checkpoints.steps(), ElementsAre(1));
    EXPECT_EQ(checkpoints.newest().step, 1);
  }
}

TEST(CheckpointFolder, LeavesNothingBehindWhenWritingFails) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints");
  checkpoints.write(1, fill);

  EXPECT_THROW(checkpoints.write(2,
                                 [](const fs::path& f) {
                                   fill(f);
                                   fail("[io] No space left on device");
                                 }),
               Error);

  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints.path()), {}), 1);
  EXPECT_EQ(checkpoints.newest().step, 1);
}

TEST(CheckpointFolder, ReplacesACorruptOneOfTheSameStep) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints");
  checkpoints.write(3, fill);
  fs::remove(checkpoints.path(3) / "manifest.json");

  checkpoints.write(3, fill);

  EXPECT_EQ(checkpoints.newest().step, 3);
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints.path()), {}), 1);
}

// Training continues while another process looks for the newest checkpoint: a listed one may be
// deleted before it is read, when there is already a newer one.
TEST(CheckpointFolder, AlwaysFindsOneDuringTraining) {
  const io::Scratch scratch;
  CheckpointFolder(scratch / "checkpoints").write(0, fill);
  std::jthread training([&](const std::stop_token& stop) {
    CheckpointFolder checkpoints(scratch / "checkpoints", {.newest = 1});
    for (int64_t step = 1; !stop.stop_requested(); ++step) {
      checkpoints.write(step, fill);
    }
  });
  const CheckpointFolder others(scratch / "checkpoints");
  int64_t newest = 0;
  for (int looks = 0; newest < 50; ++looks) {
    const Found found = others.newest();
    ASSERT_TRUE(found.step.has_value()) << looks;
    ASSERT_GE(*found.step, newest) << looks;
    newest = *found.step;
  }
}

TEST(CheckpointFolder, KeepsTheNewestOnes) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints", {.newest = 2});
  for (const int64_t step : {5, 9, 10, 20}) {
    checkpoints.write(step, fill);
  }
  EXPECT_THAT(checkpoints.steps(), ElementsAre(10, 20));
}

TEST(CheckpointFolder, DoesNotCountCorruptOnesAsKept) {
  const io::Scratch scratch;
  CheckpointFolder earlier(scratch / "checkpoints");
  for (const int64_t step : {10, 20, 30}) {
    earlier.write(step, fill);
  }
  CheckpointFolder checkpoints(scratch / "checkpoints", {.newest = 2, .corrupt = {20, 30}});

  checkpoints.write(15, fill);
  EXPECT_THAT(checkpoints.steps(), ElementsAre(10, 15, 20, 30));
  checkpoints.write(20, fill);  // rewritten
  EXPECT_THAT(checkpoints.steps(), ElementsAre(15, 20, 30));
  checkpoints.write(25, fill);
  EXPECT_THAT(checkpoints.steps(), ElementsAre(20, 25, 30));
  checkpoints.write(35, fill);
  checkpoints.write(40, fill);
  EXPECT_THAT(checkpoints.steps(), ElementsAre(35, 40));
}

TEST(CheckpointFolder, KeepsPeriodicOnesToo) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints", {.newest = 1, .period = 10});
  for (const int64_t step : {5, 10, 15, 20, 25, 29}) {
    checkpoints.write(step, fill);
  }
  EXPECT_THAT(checkpoints.steps(), ElementsAre(10, 20, 29));
}

TEST(CheckpointFolder, CleansUpAfterAnInterruptedWriterOnly) {
  const io::Scratch scratch;
  CheckpointFolder checkpoints(scratch / "checkpoints");
  checkpoints.write(1, fill);
  fs::create_directories(checkpoints.path() / "2.writing" / "transformer");
  fs::create_directories(checkpoints.path() / "notes.writing");

  checkpoints.clean();

  EXPECT_FALSE(fs::exists(checkpoints.path() / "2.writing"));
  EXPECT_TRUE(fs::exists(checkpoints.path() / "notes.writing"));
  EXPECT_EQ(checkpoints.newest().step, 1);
}

TEST(MostNewCheckpoints, CountTheOneThatIsBeingWritten) {
  constexpr int64_t kNoEnd = 1000;
  const SavedSteps run{.first = 0, .last = 10, .every = 2};
  EXPECT_EQ(max_new_checkpoints({}, run, {}, kNoEnd), 5) << "all are kept";
  EXPECT_EQ(max_new_checkpoints({}, run, {.newest = 2}, kNoEnd), 3);
  EXPECT_EQ(max_new_checkpoints({}, run, {.newest = 1, .period = 4}, kNoEnd), 3)
      << "4, 8 and the newest";
  EXPECT_EQ(max_new_checkpoints({}, run, {}, 2), 2) << "no more is asked";
}

TEST(MostNewCheckpoints, AreFewerIfOldOnesAreRemoved) {
  const SavedSteps run{.first = 4, .last = 10, .every = 2};
  EXPECT_EQ(max_new_checkpoints({2, 4}, run, {.newest = 2}, 9), 1);
  EXPECT_EQ(max_new_checkpoints({2, 4}, run, {}, 9), 3);
}

TEST(MostNewCheckpoints, AreThoseThatARunWrites) {
  EXPECT_EQ(max_new_checkpoints({}, {.last = 10}, {}, 9), 1) << "the last";
  EXPECT_EQ(max_new_checkpoints({}, {.last = 10, .at_end = false}, {}, 9), 0);
  EXPECT_EQ(max_new_checkpoints({}, {.last = 10, .every = 20, .at_end = false}, {}, 9), 0);
  EXPECT_EQ(max_new_checkpoints({}, {.last = 5, .every = 2}, {}, 9), 3) << "2, 4 and the last";
  EXPECT_EQ(max_new_checkpoints({}, {.last = int64_t{1} << 40, .every = 1}, {.newest = 3}, 9), 4);
}

TEST(RunLock, RefusesASecondRunAndNamesTheFirst) {
  const io::Scratch scratch;
  {
    const RunLock first(scratch / "run");
    EXPECT_THAT([&] { RunLock second(scratch / "run"); },
                ThrowsMessage<Error>(HasSubstr("in use by another job of this process")));
  }
  EXPECT_NO_THROW(RunLock(scratch / "run"));
}

}  // namespace
}  // namespace kinema::checkpoints
