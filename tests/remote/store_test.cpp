// Store against gcp-storage-emulator and moto: objects, and requests that fail.
#include "kinema/remote/store.h"

#include <gmock/gmock.h>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "remote/store_fixture.h"

namespace kinema::remote {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

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
  const std::string bytes = counted(20'000'001);  // more than one part in either service
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
  store.remove("9");  // not an error

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

// A fifth of all requests fails. Objects must still be complete. The longest call is an upload of
// four requests, each tried at least twice by the libraries: it fails with a probability of less
// than 1 - 0.96^4 = 0.15, and all nine tries with 4e-8.
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
  // moto has no public buckets; the proxy's answer replaces Google's refusal.
  spoil(1, "403");

  EXPECT_THAT([&] { store().write("a", "text"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("could not be written"),
                                         HasSubstr("\n  credentials come from"))));
}

// Only s3: the Google client waits two minutes for a stalled connection.
TEST(StoreStall, IsGivenUp) {
  const StorePath path{"s3", StoreServers::kBucket, "stall"};
  const Store store(path, {.stall_s = 1, .retries = 0});
  servers()->spoil("s3", 1, "stall", 120);

  EXPECT_THAT([&] { store.read("a"); }, ThrowsMessage<Error>(HasSubstr("could not be read")));
  servers()->spoil("s3", 0);
}

}  // namespace
}  // namespace kinema::remote
