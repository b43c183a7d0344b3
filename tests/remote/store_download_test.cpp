// Downloads from stores, complete and partial, against gcp-storage-emulator and moto.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "remote/store_fixture.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::ThrowsMessage;

using StoreDownloadTest = StoreTest;
INSTANTIATE_TEST_SUITE_P(Both, StoreDownloadTest, testing::Values("gs", "s3"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(StoreDownloadTest, GoesOnWithADownloadFromWhereItStopped) {
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
  EXPECT_EQ(partial_bytes(to), first);
  ASSERT_LT(first, file.size);
  std::vector<int64_t> told;
  store.download(file, to, "", [&](int64_t so_far) { told.push_back(so_far); });

  EXPECT_THAT(told, Each(Gt(first)));
  EXPECT_EQ(io::read_text(to), bytes);
  EXPECT_EQ(partial_bytes(to), 0);
}

TEST_P(StoreDownloadTest, BeginsADownloadAnewWhenTheObjectIsAnother) {
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
  EXPECT_EQ(partial_bytes(to), 0);
}

TEST_P(StoreDownloadTest, SeesThatAnObjectIsShorterThanItWas) {
  const Store store = this->store();
  store.write("a", "12345");
  const StoredFile file = *store.find("a");
  store.write("a", "123");

  EXPECT_THAT(
      [&] { store.download(file, scratch_ / "to"); },
      ThrowsMessage<Error>(HasSubstr("a changed while it was read: it had 5 bytes, now 3")));
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_P(StoreDownloadTest, ReadsPartsOfAnObject) {
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

// Only gs: S3 gives no checksum of a multipart object.
TEST(StoreChecksum, ShowsWhatWasDamagedOnTheWay) {
  const io::Scratch scratch;
  const Store store({"gs", StoreServers::kBucket, "damaged"});
  store.write("a", "text");
  servers()->spoil("gs", 1, "flip");

  EXPECT_THAT([&] { store.download(*store.find("a"), scratch / "to"); },
              ThrowsMessage<Error>(HasSubstr("damaged/a has CRC-32C")));
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

}  // namespace
}  // namespace kinema::remote
