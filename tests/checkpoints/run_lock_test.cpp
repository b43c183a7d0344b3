#include "kinema/checkpoints/run_lock.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "io/scratch.h"
#include "kinema/io/atomic_write.h"

namespace kinema::checkpoints {
namespace {

namespace fs = std::filesystem;

TEST(RunLock, TellsOthersThatARunIsGoingOn) {
  const io::Scratch scratch;
  EXPECT_FALSE(is_training(scratch / "run")) << "there is none";
  std::optional<RunLock> lock(std::in_place, scratch / "run");
  EXPECT_TRUE(is_training(scratch / "run"));
  lock.reset();
  EXPECT_FALSE(is_training(scratch / "run"));
}

TEST(RunLock, LeavesNothingOfARunThatWasRefused) {
  const io::Scratch scratch;
  { const RunLock lock(scratch / "new/run"); }
  EXPECT_FALSE(std::filesystem::exists(scratch / "new"));

  std::filesystem::create_directories(scratch / "there");
  { const RunLock lock(scratch / "there"); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "there"));

  {
    const RunLock lock(scratch / "used");
    io::write_file(scratch / "used/config.yml", "");
  }
  EXPECT_TRUE(std::filesystem::exists(scratch / "used/.lock"));
  { const RunLock again(scratch / "used"); }
  EXPECT_TRUE(std::filesystem::exists(scratch / "used/.lock"));
}

TEST(RunLock, NoticesThatItsFolderIsGone) {
  const io::Scratch scratch;
  const RunLock removed(scratch / "removed");
  const RunLock renamed(scratch / "renamed");
  const RunLock replaced(scratch / "replaced");
  EXPECT_TRUE(removed.is_in_place());

  fs::remove_all(scratch / "removed");
  fs::rename(scratch / "renamed", scratch / "elsewhere");
  fs::remove_all(scratch / "replaced");
  const RunLock other(scratch / "replaced");

  EXPECT_FALSE(removed.is_in_place());
  EXPECT_FALSE(renamed.is_in_place());
  EXPECT_FALSE(replaced.is_in_place());
  EXPECT_TRUE(other.is_in_place());
}

}  // namespace
}  // namespace kinema::checkpoints
