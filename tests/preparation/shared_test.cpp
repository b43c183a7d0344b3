// Run by mpirun, as several processes: records that they make together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "kinema/core/error.h"
#include "preparation/small_records.h"
#include "world/test_world.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A folder of process 0 that all see, and the records that one process alone makes there.
class Shared : public testing::Test {
 protected:
  Shared() {
    if (world_.is_first()) {
      scratch_.emplace();
      folder_ = scratch_->path();
    }
    folder_ = world_.communicator().broadcast(folder_.string(), {.what = "the folder"});
  }
  ~Shared() override { world_.communicator().barrier({.what = "the end of a test"}); }

  /// Records made by all, in `name`.
  Prepared together(Options given, const std::string& name, const Hooks& hooks = {}) {
    given.output = folder_ / name;
    given.world = &world_;
    Prepared made = run(given, hooks);
    world_.communicator().barrier({.what = "the records"});
    return made;
  }
  /// Process 0 checks that `name` equals what one process makes.
  void expect_as_alone(Options given, const std::string& name) {
    if (!world_.is_first()) {
      return;
    }
    given.output = folder_ / (name + "-alone");
    run(given);
    EXPECT_EQ(contents(folder_ / name), contents(given.output));
    for (const char* ending : {".prepare.json", ".skipped.jsonl"}) {
      const fs::path one = (folder_ / name).string() + ending;
      const fs::path other = given.output.string() + ending;
      ASSERT_EQ(fs::exists(one), fs::exists(other)) << ending;
      if (fs::exists(one)) {
        std::stringstream text;
        std::stringstream expected;
        text << std::ifstream(one).rdbuf();
        expected << std::ifstream(other).rdbuf();
        EXPECT_EQ(text.str(), expected.str()) << ending;
      }
    }
  }

  world::World& world_ = world::test_world();
  std::optional<io::Scratch> scratch_;
  fs::path folder_;
};

TEST_F(Shared, AreTheBytesOfOneProcess) {
  ASSERT_EQ(world_.size(), 3);
  const Options given = options("");
  int64_t shards = 0;
  int64_t done = 0;
  const Prepared made = together(given, "plain",
                                 {.on_clip = [&](int64_t now, int64_t) { done = now; },
                                  .on_shard = [&](const Shard&) { ++shards; }});
  EXPECT_FALSE(made.stopped);
  EXPECT_EQ(shards, world_.is_first() ? 3 : 0);
  EXPECT_EQ(made.records, world_.is_first() ? 12 : 0);
  EXPECT_EQ(done, world_.is_first() ? made.clips : 0);
  expect_as_alone(given, "plain");
}

TEST_F(Shared, HaveDtypesAndShardsOfWhichTheFirstRecordTells) {
  Options given = options("");
  given.dtype = DType::BF16;
  given.records_per_shard = 0;
  together(given, "bf16");
  expect_as_alone(given, "bf16");
}

TEST_F(Shared, EndWhereThereAreEnough) {
  Options given = options("");
  given.max_records = 4;
  given.timesteps = {125, 875};
  const Prepared made = together(given, "evaluation");
  const std::string end =
      world_.communicator().broadcast(std::to_string(made.end_clip), {.what = "a test"});
  EXPECT_EQ(std::to_string(made.end_clip), end);
  expect_as_alone(given, "evaluation");
}

TEST_F(Shared, LeaveOutClipsThatHaveNoBucket) {
  Options given = options("");
  given.buckets = {{5, 16, 24}, {5, 24, 16}, {9, 16, 24}};
  together(given, "buckets");
  expect_as_alone(given, "buckets");
}

TEST_F(Shared, GoOnWhereOneOrSeveralWereStopped) {
  const Options given = options("");
  for (const int64_t who : {0, 2}) {
    SCOPED_TRACE(who);
    const std::string name = "stopped-" + std::to_string(who);
    int64_t asked = 0;
    const auto stop = [&] { return world_.rank() == who && ++asked > (who == 0 ? 6 : 2); };
    const Prepared first = together(given, name, {.stop_requested = stop});
    EXPECT_TRUE(first.stopped);
    if (world_.is_first()) {
      EXPECT_LT(first.records, 12);
    }
    const Prepared second = together(given, name);
    EXPECT_FALSE(second.stopped);
    if (world_.is_first()) {
      EXPECT_EQ(second.records_found, first.records);
    }
    expect_as_alone(given, name);
  }
  // Begun by one process, and nothing left to make.
  if (world_.is_first()) {
    Options alone = given;
    alone.output = folder_ / "begun";
    int64_t done = 0;
    run(alone, {.on_clip = [&](int64_t now, int64_t) { done = now; },
                .stop_requested = [&] { return done >= 7; }});
  }
  together(given, "begun");
  expect_as_alone(given, "begun");
  const Prepared again = together(given, "begun");
  EXPECT_EQ(again.records_found, world_.is_first() ? 12 : 0);
}

TEST_F(Shared, AreNotMadeOfOtherClips) {
  Options given = options("");
  given.max_clips = world_.rank() == 1 ? 9 : 10;
  EXPECT_THAT(
      [&] { together(given, "others"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("the list of clips is"), HasSubstr("on process 1"))));
}

}  // namespace
}  // namespace kinema::preparation
