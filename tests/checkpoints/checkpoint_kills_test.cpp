// Rewrites the checkpoint of a step in a process that is killed at each of its system calls in
// turn.
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoints/kill_at_call.h"
#include "io/scratch.h"
#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/io/mapped_file.h"

namespace kinema::checkpoints {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& folder, const char* text) {
  CheckpointFolder(folder).write(3, [&](const fs::path& f) {
    fs::create_directories(f / "transformer");
    std::ofstream(f / "transformer" / "weights") << text;
    std::ofstream(f / "train_state.json") << text;
  });
}

/// The content of the newest valid checkpoint; empty: there is none.
std::string newest(const fs::path& folder) {
  const Found found = CheckpointFolder(folder).newest();
  return found.step ? io::read_text(found.folder / "train_state.json") : "";
}

class WrittenAgain : public testing::TestWithParam<bool> {};

TEST_P(WrittenAgain, LeavesAValidCheckpointWhereverItIsKilled) {
  const bool exchanges = GetParam();
  int64_t kills = 0;
  for (bool killed = true; killed; kills += killed ? 1 : 0) {
    SCOPED_TRACE(kills);
    const io::Scratch scratch;
    const fs::path folder = scratch / "checkpoints";
    write(folder, "old");
    const Ended ended = run_until_call(kills, [&] {
      if (exchanges || forbid_exchange()) {
        write(folder, "new");
      }
    });
    if (ended == Ended::CANNOT_BE_TRACED) {
      GTEST_SKIP() << "a process may not be traced here";
    }
    killed = ended == Ended::KILLED;

    const std::string found = newest(folder);  // as another process sees it
    EXPECT_TRUE(found == "new" || (killed && found == "old")) << "`" << found << "`";
    CheckpointFolder(folder).clean();
    EXPECT_EQ(newest(folder), found) << "as the run does that goes on";
    EXPECT_EQ(CheckpointFolder(folder).newest().folder, folder / "3");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
    write(folder, "newer");
    EXPECT_EQ(newest(folder), "newer");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
    if (testing::Test::HasFailure()) {
      break;
    }
  }
  EXPECT_TRUE(testing::Test::HasFailure() || kills > 100) << kills;
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, WrittenAgain, testing::Bool(), [](const auto& info) {
  return info.param ? "InOneExchange" : "InTwoRenames";
});

}  // namespace
}  // namespace kinema::checkpoints
