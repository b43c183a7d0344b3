// TFRecords read from gcp-storage-emulator and moto by byte ranges.
#include "kinema/remote/store_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/data/prefetch.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/io/atomic_write.h"
#include "kinema/records/tfrecord.h"
#include "remote/store_servers.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using io::golden;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Timeouts kLongTimeouts{.stall_s = 2, .retries = 16, .backoff_ms = 0};

const Timeouts kBrief{.connect_s = 1, .stall_s = 1, .retries = 0, .backoff_ms = 0};

class StoreRecords : public testing::TestWithParam<const char*> {
 protected:
  StoreRecords() {
    spoil(0);
    for (const char* name : {"file_00-8.tfrec", "file_01-16.tfrec"}) {
      store().upload(golden("dataset/tfrecords/train") / name, name);
    }
  }
  ~StoreRecords() override { spoil(0); }

  void spoil(double rate, const std::string& kinds = "503", double stall_s = 60) const {
    servers()->spoil(GetParam(), rate, kinds, stall_s);
  }
  Store store(const Timeouts& timeouts = kLongTimeouts) const {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return Store({GetParam(), StoreServers::kBucket, "records/" + std::to_string(test->line())},
                 timeouts);
  }
  std::vector<records::RangedTfRecords> open(const Timeouts& timeouts = kLongTimeouts) const {
    const Store store = this->store(timeouts);
    return open_records(store, record_shards(store.list()), scratch_.path());
  }

  io::Scratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Both, StoreRecords, testing::Values("gs", "s3"),
                         [](const auto& each) { return std::string(each.param); });

TEST(RecordShards, AreThoseOfTheFolderItself) {
  std::vector<std::string> names;
  for (const StoredFile& file : record_shards({{"sub/a.tfrec"}, {"c.tfrec"}, {"b.tfrec"}, {"d"}})) {
    names.push_back(file.name);
  }
  EXPECT_THAT(names, ElementsAre("b.tfrec", "c.tfrec"));
}

// Batches read by two threads, as in a run, while a fifth of the requests fails. A read is one
// request, tried at least nine times: all tries fail with probability 0.2^9 = 5e-7.
TEST_P(StoreRecords, GiveTheSameBatchesAsAFolderWhileRequestsFail) {
  data::TfRecordOptions options{.folder = golden("dataset/tfrecords/train"), .seed = 5};
  const auto here = data::tfrecord_source(options);
  spoil(0.2, "503,close,cut");
  options.folder = store().path().text();
  const auto there = data::tfrecord_source(open(), options);

  data::Prefetcher local(*here, {.batch_size = 4, .end = 24});
  data::Prefetcher stored(*there, {.batch_size = 4, .end = 24});
  for (int batch = 0; batch < 6; ++batch) {
    const auto want = local.next();
    const auto got = stored.next();
    ASSERT_TRUE(want && got);
    EXPECT_EQ(got->ids, want->ids);
    EXPECT_EQ(got->latents.bytes, want->latents.bytes);
    EXPECT_EQ(got->encoder_hidden_states.bytes, want->encoder_hidden_states.bytes);
  }
  EXPECT_FALSE(stored.next().has_value());
}

TEST_P(StoreRecords, AreLookedForOnce) {
  const Store store = this->store();
  const std::vector<StoredFile> shards = record_shards(store.list());
  open_records(store, shards, scratch_.path());

  const int64_t before = servers()->requests(GetParam());
  const auto again = open_records(store, shards, scratch_.path());
  EXPECT_EQ(servers()->requests(GetParam()), before);
  EXPECT_EQ(again.at(1).size(), 4);
  EXPECT_EQ(
      again.at(1).at(3).size(),
      records::TfRecordFile::open(golden("dataset/tfrecords/train/file_01-16.tfrec")).at(3).size());
}

TEST_P(StoreRecords, AreLookedForAgainWhereTheShardOrTheIndexIsAnother) {
  open();
  store().upload(golden("dataset/tfrecords/eval/file_00-7.tfrec"), "file_00-8.tfrec");
  EXPECT_EQ(open().at(0).size(), 7);

  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(scratch_.path())) {
    if (entry.is_regular_file()) {
      io::write_file(entry.path(), "no index");
    }
  }
  EXPECT_EQ(open().at(0).size(), 7);
}

TEST_P(StoreRecords, ThatChangeAfterTheyWereFoundAreAnError) {
  const auto opened = open(kBrief);
  const auto listed = open(kBrief);  // from the index, so that no object is open yet
  store().write("file_00-8.tfrec", "another");

  EXPECT_THAT([&] { listed.at(0).at(0); },
              ThrowsMessage<Error>(HasSubstr("file_00-8.tfrec changed: it had")));
  EXPECT_THAT([&] { opened.at(0).at(0); },
              ThrowsMessage<Error>(HasSubstr("file_00-8.tfrec could not be read")));
}

// A run waits longer; here it matters that a batch which cannot be read ends the wait.
TEST_P(StoreRecords, OfAServerThatDiesAreAnErrorOfTheNextBatch) {
  const std::string path = store().path().text();
  const auto source = data::tfrecord_source(open(kBrief), {.folder = path, .shuffle = false});
  EXPECT_EQ(source->at(0).id, "file_00-8.tfrec record 0");
  spoil(1, std::string(GetParam()) == "gs" ? "close" : "close,stall", 120);

  data::Prefetcher prefetcher(*source, {.batch_size = 2});
  EXPECT_THAT([&] { prefetcher.next(); },
              ThrowsMessage<Error>(HasSubstr(path + "/file_00-8.tfrec could not be read")));
}

}  // namespace
}  // namespace kinema::remote
