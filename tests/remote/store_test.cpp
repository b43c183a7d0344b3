// Store, its cache and its mirror against gcp-storage-emulator and moto.
#include "remote/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "io/atomic_write.h"
#include "io/mapped_file.h"
#include "io/scratch.h"
#include "remote/mirror.h"
#include "remote/model_files.h"
#include "remote/store_cache.h"
#include "remote/store_servers.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::ThrowsMessage;

std::vector<std::string> names(const std::vector<StoredFile>& files) {
  std::vector<std::string> out;
  for (const StoredFile& file : files) {
    out.push_back(file.name);
  }
  return out;
}

/// Bytes that no two places of share, so that pieces that are swapped or doubled are seen.
std::string counted(size_t size) {
  std::string out;
  for (uint64_t i = 0; out.size() < size; ++i) {
    out.append(reinterpret_cast<const char*>(&i), sizeof(i));
  }
  out.resize(size);
  return out;
}

class StoreTest : public testing::TestWithParam<const char*> {
 protected:
  StoreTest() { spoil(0); }
  ~StoreTest() override { spoil(0); }

  void spoil(double rate, const std::string& kinds = "503", double stall_s = 60) const {
    servers()->spoil(GetParam(), rate, kinds, stall_s);
  }
  std::string uri(const std::string& name = "") const {
    return fmt::format("{}://{}/{}/{}", GetParam(), StoreServers::kBucket,
                       testing::UnitTest::GetInstance()->current_test_info()->line(), name);
  }
  Store store(const Patience& patience = {.stall_s = 2, .retries = 16, .backoff_ms = 0}) const {
    return Store(*read_store_path(uri()), patience);
  }

  io::Scratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Both, StoreTest, testing::Values("gs", "s3"),
                         [](const auto& each) { return std::string(each.param); });

TEST(StorePath, IsReadFromUris) {
  EXPECT_EQ(read_store_path("s3://bucket/a/b/"), (StorePath{"s3", "bucket", "a/b"}));
  EXPECT_EQ(read_store_path("gs://bucket"), (StorePath{"gs", "bucket", ""}));
  EXPECT_EQ(read_store_path("/local/folder"), std::nullopt);
  EXPECT_EQ(read_store_path("gs://bucket")->below("x/y").text(), "gs://bucket/x/y");
}

TEST(StorePath, RefusesWhatLeavesTheBucket) {
  EXPECT_THAT([] { read_store_path("gs://bucket/../other"); },
              ThrowsMessage<Error>(HasSubstr("[remote] `gs://bucket/../other`")));
  for (const char* text : {"gs://", "gs:///a", "s3://bu@ket/a"}) {
    EXPECT_THAT([&] { read_store_path(text); }, ThrowsMessage<Error>(HasSubstr("://BUCKET/PATH")))
        << text;
  }
  EXPECT_THAT([] { read_store_path("s3://B/x"); }, ThrowsMessage<Error>(HasSubstr("s3://BUCKET")));
}

TEST_P(StoreTest, GivesBackWhatWasWritten) {
  const std::string bytes = counted(20'000'001);  // more than one part of either service
  io::write_file(scratch_ / "from", bytes);
  const Store store = this->store();

  store.upload(scratch_ / "from", "a/b.bin");
  store.write("a/empty", "");
  store.write("z", "text");

  EXPECT_THAT(names(store.list()), ElementsAre("a/b.bin", "a/empty", "z"));
  EXPECT_EQ(store.find("a/b.bin")->size, 20'000'001);
  EXPECT_EQ(store.find("a/none"), std::nullopt);
  EXPECT_EQ(store.read("z"), "text");
  EXPECT_EQ(store.read("a/empty"), "");
  store.download(store.list("a").at(0), scratch_ / "to", "a");
  EXPECT_EQ(io::read_text(scratch_ / "to"), bytes);
}

TEST_P(StoreTest, ListsNothingWhereNothingIs) {
  EXPECT_THAT(store().list(), IsEmpty());
  EXPECT_THAT(store().list("deeper"), IsEmpty());
}

TEST_P(StoreTest, ListsAnObjectAsItself) {
  store().write("a.txt", "12345");

  const std::vector<StoredFile> files = Store(*read_store_path(uri("a.txt"))).list();

  ASSERT_THAT(files, SizeIs(1));
  EXPECT_EQ(files[0].name, "");
  EXPECT_EQ(files[0].size, 5);
}

TEST_P(StoreTest, ReplacesObjects) {
  const Store store = this->store();
  store.write("a", "first, longer");
  store.write("a", "second");

  EXPECT_EQ(store.read("a"), "second");
}

TEST_P(StoreTest, RemovesFoldersAndNothingBeside) {
  const Store store = this->store();
  for (const char* name : {"10/a/x", "10/b", "100/b", "9"}) {
    store.write(name, "x");
  }

  store.remove_folder("10");
  store.remove("9");
  store.remove("9");  // is no error

  EXPECT_THAT(names(store.list()), ElementsAre("100/b"));
}

TEST_P(StoreTest, NamesAnObjectThatIsNotThere) {
  EXPECT_THAT([&] { store().read("none.yml"); },
              ThrowsMessage<Error>(HasSubstr("[remote] " + uri("none.yml") +
                                             " could not be read: it is not there")));
}

TEST_P(StoreTest, NamesABucketThatIsNotThere) {
  const Store other(*read_store_path(std::string(GetParam()) + "://no-such-bucket/a"));

  EXPECT_THAT([&] { other.write("x", "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("://no-such-bucket/a/x could not be written"),
                                         HasSubstr("there"))));
}

TEST_P(StoreTest, RefusesObjectsThatAreTooLarge) {
  store().write("large", std::string(100, 'x'));

  EXPECT_THAT([&] { store().read("large", 99); },
              ThrowsMessage<Error>(HasSubstr("has more than 99 bytes")));
}

// A fifth of all requests goes wrong. Objects must come and go whole all the same. The longest call
// is an upload of four requests, each of which the libraries try twice at least: it fails in less
// than 1 - 0.96^4 = 0.15 of all cases, and so do all nine tries of it in 4e-8.
TEST_P(StoreTest, GoesOnWhenRequestsFail) {
  const std::string bytes = counted(9'000'000);
  io::write_file(scratch_ / "from", bytes);
  const Store store = this->store();
  spoil(0.2, "503,close,lost,cut");

  for (const char* name : {"a", "b"}) {
    store.upload(scratch_ / "from", name);
    store.write(std::string(name) + ".txt", name);
    store.download(*store.find(name), scratch_ / "to");
    EXPECT_EQ(store.read(std::string(name) + ".txt"), name);
    EXPECT_EQ(io::read_text(scratch_ / "to"), bytes);
  }
  EXPECT_THAT(store.list(), SizeIs(4));
}

TEST_P(StoreTest, GivesUpWithOneErrorWhenNothingAnswers) {
  const Store store = this->store({.stall_s = 2, .retries = 0, .backoff_ms = 0});
  io::write_file(scratch_ / "kept", "as it was");
  spoil(1, "close");

  EXPECT_THAT(
      [&] { store.write("a", "text"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("[remote] " + uri("a") + " could not be written"),
                                 HasSubstr(servers()->url(GetParam())))));
  EXPECT_THAT(
      [&] {
        store.download({"a", 4, 0}, scratch_ / "kept");
      },
      ThrowsMessage<Error>(HasSubstr("could not be read")));
  EXPECT_THROW(store.list(), Error);
  EXPECT_EQ(io::read_text(scratch_ / "kept"), "as it was");
}

TEST_P(StoreTest, SaysHowToGetCredentialsWhenRefused) {
  // moto knows of no public bucket; what the proxy answers stands in for Google's refusal.
  spoil(1, "403");

  EXPECT_THAT([&] { store().write("a", "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("could not be written"),
                                         HasSubstr("\n  credentials come from"))));
}

// Only s3: the Google client waits two minutes for a connection that stalls.
TEST(StoreStall, IsGivenUp) {
  const StorePath path{"s3", StoreServers::kBucket, "stall"};
  const Store store(path, {.stall_s = 1, .retries = 0});
  servers()->spoil("s3", 1, "stall", 120);

  EXPECT_THAT([&] { store.read("a"); }, ThrowsMessage<Error>(HasSubstr("could not be read")));
  servers()->spoil("s3", 0);
}

TEST_P(StoreTest, GoesOnWithADownloadFromWhereItStopped) {
  const std::string bytes = counted(40'000'000);
  io::write_file(scratch_ / "from", bytes);
  const Store store = this->store();
  store.upload(scratch_ / "from", "a");
  const StoredFile file = *store.find("a");
  const fs::path to = scratch_ / "to";
  int64_t first = 0;

  EXPECT_THROW(store.download(file, to, "",
                              [&](int64_t so_far) {
                                first = so_far;
                                throw std::runtime_error("killed");
                              }),
               std::runtime_error);
  EXPECT_FALSE(fs::exists(to));
  EXPECT_EQ(bytes_on_the_way(to), first);
  ASSERT_LT(first, file.size);
  std::vector<int64_t> told;
  store.download(file, to, "", [&](int64_t so_far) { told.push_back(so_far); });

  EXPECT_THAT(told, Each(Gt(first)));
  EXPECT_EQ(io::read_text(to), bytes);
  EXPECT_EQ(bytes_on_the_way(to), 0);
}

TEST_P(StoreTest, BeginsADownloadAnewWhenTheObjectIsAnother) {
  io::write_file(scratch_ / "from", counted(20'000'000));
  const Store store = this->store();
  store.upload(scratch_ / "from", "a");
  const fs::path to = scratch_ / "to";
  EXPECT_THROW(
      store.download(*store.find("a"), to, "", [](int64_t) { throw std::runtime_error("killed"); }),
      std::runtime_error);

  const std::string other(20'000'000, 'x');
  store.write("a", other);
  store.download(*store.find("a"), to);

  EXPECT_EQ(io::read_text(to), other);
  EXPECT_EQ(bytes_on_the_way(to), 0);
}

TEST_P(StoreTest, SeesThatAnObjectIsShorterThanItWas) {
  const Store store = this->store();
  store.write("a", "12345");
  const StoredFile file = *store.find("a");
  store.write("a", "123");

  EXPECT_THAT(
      [&] { store.download(file, scratch_ / "to"); },
      ThrowsMessage<Error>(HasSubstr("a changed while it was read: it had 5 bytes, now 3")));
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_P(StoreTest, ReadsPartsOfAnObject) {
  const std::string bytes = counted(100'000);
  store().write("a", bytes);
  const StoredObject object = store().open("a");
  EXPECT_EQ(object.size(), 100'000);

  std::string part(1000, ' ');
  spoil(0.2, "503,close,cut");
  for (const int64_t begin : {0, 17, 99'000}) {
    object.read(begin, std::as_writable_bytes(std::span(part)));
    EXPECT_EQ(part, bytes.substr(static_cast<size_t>(begin), 1000));
  }

  EXPECT_THAT([&] { object.read(99'001, std::as_writable_bytes(std::span(part))); },
              ThrowsMessage<Error>(HasSubstr("a has 100000 bytes, 1000 from 99001")));
  spoil(0);
  const std::string version = object.version();
  store().write("a", "other");
  EXPECT_NE(store().open("a").version(), version);
  EXPECT_THAT([&] { store().open("none"); }, ThrowsMessage<Error>(HasSubstr("it is not there")));
}

// Only gs: S3 gives no checksum of a whole object that was written in parts.
TEST(StoreChecksum, ShowsWhatWasDamagedOnTheWay) {
  const io::Scratch scratch;
  const Store store({"gs", StoreServers::kBucket, "damaged"});
  store.write("a", "text");
  servers()->spoil("gs", 1, "flip");

  EXPECT_THAT([&] { store.download(*store.find("a"), scratch / "to"); },
              ThrowsMessage<Error>(HasSubstr("damaged/a came with CRC-32C")));
  servers()->spoil("gs", 0);
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  store.download(*store.find("a"), scratch / "to");
  EXPECT_EQ(io::read_text(scratch / "to"), "text");
}

TEST(StoreCredentials, OfGoogleThatCannotBeReadAreNamed) {
  const io::Scratch scratch;
  io::write_file(scratch / "key.json", "no key");
  const std::string emulator = std::getenv("STORAGE_EMULATOR_HOST");
  ::unsetenv("STORAGE_EMULATOR_HOST");
  ::setenv("GOOGLE_APPLICATION_CREDENTIALS", (scratch / "key.json").c_str(), 1);

  EXPECT_THAT(
      [] {
        Store({"gs", StoreServers::kBucket, ""}).read("a");
      },
      ThrowsMessage<Error>(HasSubstr("key.json")));
  ::setenv("STORAGE_EMULATOR_HOST", emulator.c_str(), 1);
  ::unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
}

// ---- The cache -----------------------------------------------------------------------------

TEST_P(StoreTest, CopiesAFolderOnceAndThenWhatChanged) {
  const Store store = this->store();
  store.write("a.tfrec", "first");
  store.write("sub/b.tfrec", "second");
  const StoreCacheOptions options{.cache = scratch_.path()};

  const fs::path copy = fetch_from_store(store.path(), options);
  EXPECT_EQ(io::read_text(copy / "a.tfrec"), "first");
  EXPECT_EQ(io::read_text(copy / "sub/b.tfrec"), "second");

  // What is here already is not asked for, which a mark in it shows.
  const auto time = fs::last_write_time(copy / "a.tfrec");
  std::ofstream(copy / "a.tfrec") << "FIRST";
  fs::last_write_time(copy / "a.tfrec", time);
  store.write("sub/b.tfrec", "another");
  fetch_from_store(store.path(), options);
  EXPECT_EQ(io::read_text(copy / "a.tfrec"), "FIRST");
  EXPECT_EQ(io::read_text(copy / "sub/b.tfrec"), "another");
}

TEST_P(StoreTest, DropsCopiesOfWhatIsNoLongerThere) {
  const Store store = this->store();
  store.write("a", "1");
  store.write("b", "2");
  const StoreCacheOptions options{.cache = scratch_.path()};
  const fs::path copy = fetch_from_store(store.path(), options);
  ASSERT_TRUE(fs::exists(copy / "b"));

  store.remove("b");
  fetch_from_store(store.path(), options);

  EXPECT_TRUE(fs::exists(copy / "a"));
  EXPECT_FALSE(fs::exists(copy / "b"));
}

TEST_P(StoreTest, CopiesOneObject) {
  store().write("config.yml", "seed: 1");

  const fs::path copy =
      fetch_from_store(*read_store_path(uri("config.yml")), {.cache = scratch_.path()});

  EXPECT_EQ(copy.filename(), "config.yml");
  EXPECT_EQ(io::read_text(copy), "seed: 1");
}

TEST_P(StoreTest, BringsAFolderWhileRequestsFail) {
  const Store store = this->store();
  for (int i = 0; i < 8; ++i) {
    store.write(fmt::format("{:02}", i), counted(100'000 + static_cast<size_t>(i)));
  }
  spoil(0.2, "503,close,cut");

  const fs::path copy = fetch_from_store(
      store.path(), {.cache = scratch_.path(), .patience = {.retries = 16, .backoff_ms = 0}});

  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(io::read_text(copy / fmt::format("{:02}", i)),
              counted(100'000 + static_cast<size_t>(i)));
  }
}

TEST_P(StoreTest, BringsWhatIsWantedOfAModelAndDropsWhatIsGone) {
  const Store store = this->store();
  const std::string name = "vae/diffusion_pytorch_model";
  for (const std::string shard : {"-00001-of-00002.safetensors", "-00002-of-00002.safetensors"}) {
    store.write(name + shard, shard);
  }
  store.write(name + ".safetensors.index.json", "{}");
  store.write("model_index.json", "{}");
  store.write("vae/config.json", "{}");
  store.write("transformer/config.json", "not wanted");
  store.write("notes.txt", "not wanted");
  const StoreCacheOptions options{.cache = scratch_.path(),
                                  .choose = [](const std::vector<std::string>& all) {
                                    return choose_files(all, {.parts = {"vae"}}, "the model");
                                  }};

  const fs::path copy = fetch_from_store(store.path(), options);
  EXPECT_TRUE(fs::exists(copy / "vae/config.json"));
  EXPECT_EQ(io::read_text(copy / (name + "-00002-of-00002.safetensors")),
            "-00002-of-00002.safetensors");
  EXPECT_FALSE(fs::exists(copy / "notes.txt"));
  EXPECT_FALSE(fs::exists(copy / "transformer"));

  // Were the index to stay, it would be read instead of the file that took its place.
  for (const std::string end :
       {"-00001-of-00002.safetensors", "-00002-of-00002.safetensors", ".safetensors.index.json"}) {
    store.remove(name + end);
  }
  store.write(name + ".safetensors", "whole");
  fetch_from_store(store.path(), options);
  EXPECT_EQ(io::read_text(copy / (name + ".safetensors")), "whole");
  EXPECT_FALSE(fs::exists(copy / (name + ".safetensors.index.json")));
}

TEST_P(StoreTest, TellsHowManyBytesOfACopyHaveCome) {
  const Store store = this->store();
  store.write("a", "123");
  store.write("b", "12345");
  int64_t done = 0;
  int64_t all = 0;
  const DownloadProgress progress = [&](int64_t now, int64_t total) {
    EXPECT_GT(now, done);
    done = now;
    all = total;
  };

  fetch_from_store(store.path(), {.cache = scratch_.path()}, progress);

  EXPECT_EQ(done, 8);
  EXPECT_EQ(all, 8);
}

TEST_P(StoreTest, SaysWhenThereIsNothingToCopy) {
  EXPECT_THAT([&] { fetch_from_store(store().path(), {.cache = scratch_.path()}); },
              ThrowsMessage<Error>(HasSubstr("does not exist, or holds nothing")));
}

// ---- The mirror ----------------------------------------------------------------------------

TEST_P(StoreTest, MirrorsAFolderButWhatIsExcepted) {
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

TEST_P(StoreTest, MirrorsInTheBackground) {
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

TEST_P(StoreTest, ThrowsFromTheMirrorsFlushWhenTheStoreIsGone) {
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

TEST_P(StoreTest, BringsWhatAnotherMachineMirrored) {
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

  // The first has nothing of its own that is newer.
  Mirror(scratch_ / "a", store, {}).bring();
  EXPECT_EQ(io::read_text(scratch_ / "a/metrics.jsonl"), "1 2 3 4");
}

TEST_P(StoreTest, KeepsWhatWasNotMirroredYet) {
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

TEST_P(StoreTest, DropsMirroredFilesThatAreGoneFromTheStore) {
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
