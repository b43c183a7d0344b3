// Mirrors of local folders in stores, against gcp-storage-emulator and moto.
#include "kinema/remote/mirror.h"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "remote/store_fixture.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using MirrorTest = StoreTest;
INSTANTIATE_TEST_SUITE_P(Both, MirrorTest, testing::Values("gs", "s3"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(MirrorTest, MirrorsAFolderExceptGivenFiles) {
  fs::create_directories(scratch_ / "checkpoints");
  fs::create_directories(scratch_ / "tensorboard");
  io::write_file(scratch_ / "checkpoints/x", "not this");
  io::write_file(scratch_ / "tensorboard/events", "one");
  io::write_file(scratch_ / ".lock", "not this");
  const Store store = this->store();
  Mirror mirror(scratch_.path(), store, {.except = {"checkpoints"}});

  mirror.flush();
  EXPECT_THAT(names(store.list()), ElementsAre("tensorboard/events"));

  std::ofstream(scratch_ / "tensorboard/events", std::ios::app) << ", two";
  mirror.flush();
  EXPECT_EQ(store.read("tensorboard/events"), "one, two");
}

TEST_P(MirrorTest, MirrorsInTheBackground) {
  const Store store = this->store();
  Mirror mirror(scratch_.path(), store, {.period_s = 3600});
  mirror.start();
  io::write_file(scratch_ / "metrics.jsonl", "row");

  mirror.hint();

  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!store.find("metrics.jsonl") && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(store.read("metrics.jsonl"), "row");
}

TEST_P(MirrorTest, ThrowsFromTheMirrorsFlushWhenTheStoreIsGone) {
  const Store store = this->store({.retries = 0, .backoff_ms = 0});
  Mirror mirror(scratch_.path(), store, {.period_s = 3600});
  io::write_file(scratch_ / "metrics.jsonl", "row");
  spoil(1, "close");

  EXPECT_THAT([&] { mirror.flush(); },
              ThrowsMessage<Error>(HasSubstr("metrics.jsonl could not be written")));
  spoil(0);
  mirror.flush();
  EXPECT_EQ(store.read("metrics.jsonl"), "row");
}

// The next call throws a thread's error, which does not end the process.
TEST_P(MirrorTest, RethrowsErrorsOfTheBackgroundThread) {
  const Store store = this->store({.retries = 0, .backoff_ms = 0});
  std::promise<void> told;
  Mirror mirror(scratch_.path(), store, {.period_s = 3600, .say = [&](const std::string&) {
                                           told.set_value();
                                           throw std::runtime_error("no console");
                                         }});
  io::write_file(scratch_ / "metrics.jsonl", "row");
  spoil(1, "close");
  mirror.start();
  mirror.hint();
  told.get_future().wait();
  spoil(0);
  std::string error;
  for (const Stopwatch watch; error.empty() && watch.seconds() < 20;) {
    try {
      mirror.flush();
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
  }
  EXPECT_EQ(error, "no console");
  mirror.flush();
  EXPECT_EQ(store.read("metrics.jsonl"), "row");
}

TEST_P(MirrorTest, DownloadsFilesOfAnotherMachine) {
  const Store store = this->store();
  Mirror first(scratch_ / "a", store, {});
  first.bring();
  io::write_file(scratch_ / "a/metrics.jsonl", "1 2 3");
  io::write_file(scratch_ / "a/large", "not wanted");
  first.flush();

  Mirror second(scratch_ / "b", store, {});
  second.bring([](const std::string& name) { return name == "metrics.jsonl"; });
  EXPECT_EQ(io::read_text(scratch_ / "b/metrics.jsonl"), "1 2 3");
  EXPECT_FALSE(fs::exists(scratch_ / "b/large"));
  std::ofstream(scratch_ / "b/metrics.jsonl", std::ios::app) << " 4";
  second.flush();

  // The first has no newer files of its own.
  Mirror(scratch_ / "a", store, {}).bring();
  EXPECT_EQ(io::read_text(scratch_ / "a/metrics.jsonl"), "1 2 3 4");
}

TEST_P(MirrorTest, KeepsFilesThatAreNotMirroredYet) {
  const Store store = this->store();
  {
    Mirror mirror(scratch_.path(), store, {});
    io::write_file(scratch_ / "metrics.jsonl", "1 2 3");
    mirror.flush();
  }
  std::ofstream(scratch_ / "metrics.jsonl", std::ios::app) << " 4";

  Mirror mirror(scratch_.path(), store, {});
  mirror.bring();

  EXPECT_EQ(io::read_text(scratch_ / "metrics.jsonl"), "1 2 3 4");
}

TEST_P(MirrorTest, RemovesMirroredFilesDeletedInTheStore) {
  const Store store = this->store();
  {
    Mirror mirror(scratch_.path(), store, {});
    io::write_file(scratch_ / "mirrored", "x");
    mirror.flush();
  }
  io::write_file(scratch_ / "new", "y");
  store.remove("mirrored");

  Mirror(scratch_.path(), store, {}).bring();

  EXPECT_FALSE(fs::exists(scratch_ / "mirrored"));
  EXPECT_TRUE(fs::exists(scratch_ / "new"));
}

}  // namespace
}  // namespace kinema::remote
