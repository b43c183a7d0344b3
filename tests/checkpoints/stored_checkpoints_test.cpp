// Checkpoints in gs:// and s3://, against servers on 127.0.0.1 whose requests fail on demand.
#include "kinema/checkpoints/stored_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "remote/store_servers.h"

namespace kinema::checkpoints {
namespace {

namespace fs = std::filesystem;
using remote::servers;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

class StoredCheckpointsTest : public testing::TestWithParam<const char*> {
 protected:
  StoredCheckpointsTest() { spoil(0); }
  ~StoredCheckpointsTest() override { spoil(0); }

  void spoil(double rate, const std::string& kinds = "close") const {
    servers()->spoil(GetParam(), rate, kinds);
  }

  remote::Store store(int retries = 16) const {
    const std::string uri =
        fmt::format("{}://{}/{}", GetParam(), remote::StoreServers::kBucket,
                    testing::UnitTest::GetInstance()->current_test_info()->line());
    return remote::Store(*remote::read_store_path(uri), {.retries = retries, .backoff_ms = 0});
  }

  /// A machine with its own folder.
  StoredCheckpoints machine(const std::string& name, Keep keep = {}, int retries = 16) {
    return {store(retries), scratch_ / name, keep,
            [this](const std::string& text) { said_.push_back(text); }};
  }

  static void save(StoredCheckpoints& checkpoints, int64_t step, const std::string& text) {
    checkpoints.begin(step);
    CheckpointFolder(checkpoints.local().path()).write(step, [&](const fs::path& folder) {
      fs::create_directories(folder / "transformer");
      io::write_file(folder / "transformer" / "config.json", text);
      io::write_file(folder / "train_state.json", std::to_string(step));
    });
    checkpoints.push();
  }

  /// The content of the newest checkpoint for a fresh machine.
  std::string newest(const std::string& name) {
    StoredCheckpoints fresh = machine(name);
    fresh.pull();
    const Found found = fresh.local().newest();
    return found.step ? io::read_text(found.folder / "transformer" / "config.json") : "none";
  }

  io::Scratch scratch_;
  std::vector<std::string> said_;
};

INSTANTIATE_TEST_SUITE_P(Both, StoredCheckpointsTest, testing::Values("gs", "s3"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(StoredCheckpointsTest, AreFoundByAnotherMachine) {
  StoredCheckpoints first = machine("a");
  save(first, 10, "ten");
  save(first, 20, "twenty");

  EXPECT_EQ(newest("b"), "twenty");
  EXPECT_THAT(machine("b").local().steps(), ElementsAre(20));  // downloads only what is needed
  EXPECT_THAT(said_, IsEmpty());
  first.check_sent();
}

TEST_P(StoredCheckpointsTest, AreNotResumedFromWithoutTheirManifest) {
  StoredCheckpoints first = machine("a");
  save(first, 10, "ten");
  save(first, 20, "twenty");
  store().remove("20/manifest.json");  // as after an interrupted upload

  EXPECT_EQ(newest("b"), "ten");
}

TEST_P(StoredCheckpointsTest, ArePassedOverWhenDamaged) {
  StoredCheckpoints first = machine("a");
  save(first, 10, "ten");
  save(first, 20, "twenty");
  store().write("20/transformer/config.json", "twisty");

  EXPECT_EQ(newest("b"), "ten");
  EXPECT_THAT(said_, ElementsAre(HasSubstr("/20 is skipped: transformer/config.json does not "
                                           "match its checksum")));
}

TEST_P(StoredCheckpointsTest, AreNotRemovedForDamagedOnes) {
  StoredCheckpoints first = machine("a");
  save(first, 10, "ten");
  save(first, 20, "twenty");
  store().write("20/transformer/config.json", "twisty");

  StoredCheckpoints second = machine("b", {.newest = 1});
  second.pull();
  second.keep({.newest = 1});
  save(second, 15, "fifteen");
  EXPECT_EQ(newest("c"), "fifteen");
}

TEST_P(StoredCheckpointsTest, ArePassedOverWhenAFileIsMissing) {
  StoredCheckpoints first = machine("a");
  save(first, 10, "ten");
  save(first, 20, "twenty");
  store().remove("20/train_state.json");
  store().write("15/manifest.json", "{broken");

  EXPECT_EQ(newest("b"), "ten");
  EXPECT_THAT(said_, SizeIs(2));
}

TEST_P(StoredCheckpointsTest, GoFromTheStoreAsKeepSays) {
  StoredCheckpoints first = machine("a", {.newest = 2, .period = 20});
  for (const int64_t step : {10, 20, 30, 40, 50}) {
    save(first, step, std::to_string(step));
  }

  std::vector<std::string> manifests;
  for (const remote::StoredFile& file : store().list()) {
    if (file.name.ends_with("manifest.json")) {
      manifests.push_back(file.name);
    }
  }
  EXPECT_THAT(manifests, ElementsAre("20/manifest.json", "40/manifest.json", "50/manifest.json"));
  EXPECT_THAT(first.local().steps(), ElementsAre(50));
}

TEST_P(StoredCheckpointsTest, AreSentLaterWhenTheStoreIsAway) {
  StoredCheckpoints first = machine("a", {}, /*retries=*/0);
  save(first, 10, "ten");
  spoil(1);
  save(first, 20, "twenty");
  EXPECT_THAT(said_, ElementsAre(HasSubstr("could not be")));
  EXPECT_THAT([&] { first.check_sent(); },
              ThrowsMessage<Error>(HasSubstr("[checkpoint] step 20 is not in ")));
  spoil(0);
  EXPECT_EQ(newest("b"), "ten");

  save(first, 30, "thirty");

  first.check_sent();
  EXPECT_EQ(newest("c"), "thirty");
  store().remove_folder("30");
  EXPECT_EQ(newest("d"), "twenty");
}

TEST_P(StoredCheckpointsTest, AreSentByTheNextRunOfTheSameMachine) {
  StoredCheckpoints first = machine("a", {}, /*retries=*/0);
  save(first, 10, "ten");
  spoil(1);
  save(first, 20, "twenty");
  spoil(0);

  machine("a").pull();

  EXPECT_EQ(newest("b"), "twenty");
}

TEST_P(StoredCheckpointsTest, FollowTheStoreWhereItWasCleared) {
  StoredCheckpoints first = machine("a");
  save(first, 10, "ten");
  store().remove_folder("10");

  EXPECT_EQ(newest("a"), "none");
}

TEST_P(StoredCheckpointsTest, FollowTheStoreWhereAnotherMachineWentOn) {
  StoredCheckpoints first = machine("a");
  save(first, 10, "ten");
  StoredCheckpoints second = machine("b");
  second.pull();
  save(second, 10, "ten again");
  save(second, 20, "twenty");

  EXPECT_EQ(newest("a"), "twenty");
}

/// What a run could not upload, the next run uploads, whatever their numbers of processes.
TEST_P(StoredCheckpointsTest, AreSentByARunOfAnotherNumberOfProcesses) {
  const auto of_host = [&](const std::string& host, int retries) {
    return StoredCheckpoints(
        store(retries), scratch_ / "a", Keep{},
        [this](const std::string& text) { said_.push_back(text); }, host);
  };
  StoredCheckpoints many = of_host("host", /*retries=*/0);
  save(many, 10, "ten");
  spoil(1);
  save(many, 20, "twenty");
  spoil(0);
  EXPECT_EQ(newest_unsent(scratch_ / "a"), 20);
  said_.clear();

  StoredCheckpoints one = machine("a");
  one.pull();

  EXPECT_THAT(said_, ElementsAre(HasSubstr(".of-host/20, which an earlier run could not send")));
  EXPECT_EQ(one.local().newest().step, 20);
  EXPECT_EQ(newest("b"), "twenty");
  EXPECT_EQ(newest_unsent(scratch_ / "a"), std::nullopt);
  EXPECT_THAT(many.local().steps(), ElementsAre(10)) << "no copy stays of what is sent";

  // And for another host name.
  spoil(1);
  StoredCheckpoints renamed = of_host("renamed", /*retries=*/0);
  save(renamed, 30, "thirty");
  spoil(0);
  of_host("again", 16).pull();
  EXPECT_EQ(newest("c"), "thirty");
}

TEST_P(StoredCheckpointsTest, OfTwoHistoriesAreRefused) {
  StoredCheckpoints one = machine("a", {}, /*retries=*/0);
  StoredCheckpoints many(
      store(0), scratch_ / "a", {}, [](const std::string&) {}, "host");
  save(one, 10, "ten");
  spoil(1);
  save(one, 20, "twenty");
  save(many, 15, "fifteen of another run");
  spoil(0);

  EXPECT_THAT([&] { machine("a").pull(); },
              ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr((scratch_ / "a").string() + " (process 0) and "), HasSubstr(".of-host"),
                  HasSubstr("different checkpoints that were not sent"), HasSubstr("remove"))));
  EXPECT_EQ(newest("b"), "ten") << "nothing was sent";

  fs::remove_all(scratch_ / "a" / ".of-host");
  machine("a").pull();
  EXPECT_EQ(newest("c"), "twenty");
}

TEST_P(StoredCheckpointsTest, ThatWereNotSentAndAreDamagedAreNamed) {
  StoredCheckpoints first = machine("a", {}, /*retries=*/0);
  save(first, 10, "ten");
  spoil(1);
  save(first, 20, "twenty");
  spoil(0);
  io::write_file(scratch_ / "a" / "20" / "train_state.json", "21");
  said_.clear();

  machine("a").pull();

  EXPECT_THAT(said_, ElementsAre(testing::AllOf(HasSubstr("a/20, which was not sent to"),
                                                HasSubstr("does not match its checksum"))));
  EXPECT_EQ(newest("b"), "ten");
}

// As in remote/store_test: with nine tries by the libraries the failure probability is below 1e-6.
TEST_P(StoredCheckpointsTest, AreWholeWhenRequestsFail) {
  spoil(0.2, "503,close,lost,cut");
  StoredCheckpoints first = machine("a", {.newest = 1});
  for (const int64_t step : {10, 20, 30}) {
    save(first, step, std::to_string(step));
  }

  first.check_sent();
  EXPECT_EQ(newest("b"), "30");
}

}  // namespace
}  // namespace kinema::checkpoints
