// Local copies of stores' objects, against gcp-storage-emulator and moto.
#include "kinema/remote/store_cache.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/remote/model_files.h"
#include "remote/store_fixture.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

using StoreCacheTest = StoreTest;
INSTANTIATE_TEST_SUITE_P(Both, StoreCacheTest, testing::Values("gs", "s3"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(StoreCacheTest, CopiesAFolderOnceAndThenWhatChanged) {
  const Store store = this->store();
  store.write("a.tfrec", "first");
  store.write("sub/b.tfrec", "second");
  const StoreCacheOptions options{.cache = scratch_.path()};

  const fs::path copy = fetch_from_store(store.path(), options);
  EXPECT_EQ(io::read_text(copy / "a.tfrec"), "first");
  EXPECT_EQ(io::read_text(copy / "sub/b.tfrec"), "second");

  // Files that are already here are not requested, which a mark in one shows.
  const auto time = fs::last_write_time(copy / "a.tfrec");
  std::ofstream(copy / "a.tfrec") << "FIRST";
  fs::last_write_time(copy / "a.tfrec", time);
  store.write("sub/b.tfrec", "another");
  fetch_from_store(store.path(), options);
  EXPECT_EQ(io::read_text(copy / "a.tfrec"), "FIRST");
  EXPECT_EQ(io::read_text(copy / "sub/b.tfrec"), "another");
}

TEST_P(StoreCacheTest, DropsCopiesOfWhatIsNoLongerThere) {
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

TEST_P(StoreCacheTest, CopiesOneObject) {
  store().write("config.yml", "seed: 1");

  const fs::path copy =
      fetch_from_store(*read_store_path(uri("config.yml")), {.cache = scratch_.path()});

  EXPECT_EQ(copy.filename(), "config.yml");
  EXPECT_EQ(io::read_text(copy), "seed: 1");
}

TEST_P(StoreCacheTest, BringsAFolderWhileRequestsFail) {
  const Store store = this->store();
  for (int i = 0; i < 8; ++i) {
    store.write(fmt::format("{:02}", i), counted(100'000 + static_cast<size_t>(i)));
  }
  spoil(0.2, "503,close,cut");

  const fs::path copy = fetch_from_store(
      store.path(), {.cache = scratch_.path(), .timeouts = {.retries = 16, .backoff_ms = 0}});

  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(io::read_text(copy / fmt::format("{:02}", i)),
              counted(100'000 + static_cast<size_t>(i)));
  }
}

TEST_P(StoreCacheTest, BringsWhatIsWantedOfAModelAndDropsWhatIsGone) {
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

  // A stale index would be read instead of the file that replaced it.
  for (const std::string end :
       {"-00001-of-00002.safetensors", "-00002-of-00002.safetensors", ".safetensors.index.json"}) {
    store.remove(name + end);
  }
  store.write(name + ".safetensors", "whole");
  fetch_from_store(store.path(), options);
  EXPECT_EQ(io::read_text(copy / (name + ".safetensors")), "whole");
  EXPECT_FALSE(fs::exists(copy / (name + ".safetensors.index.json")));
}

TEST_P(StoreCacheTest, TellsHowManyBytesOfACopyHaveCome) {
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

TEST_P(StoreCacheTest, SaysWhenThereIsNothingToCopy) {
  EXPECT_THAT([&] { fetch_from_store(store().path(), {.cache = scratch_.path()}); },
              ThrowsMessage<Error>(HasSubstr("does not exist, or holds nothing")));
}

}  // namespace
}  // namespace kinema::remote
