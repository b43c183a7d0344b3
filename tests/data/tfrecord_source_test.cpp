#include "kinema/data/tfrecord_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "io/memory_file.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/records/tfrecord.h"

namespace kinema::data {
namespace {

using io::golden;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TfRecordSource, ReadsAllShardsInOrderOrShuffled) {
  const auto ordered =
      tfrecord_source({.folder = golden("dataset/tfrecords/train"), .shuffle = false});
  const auto shuffled = tfrecord_source({.folder = golden("dataset/tfrecords/train"), .seed = 1});

  ASSERT_EQ(ordered->size(), 12);
  EXPECT_EQ(ordered->at(0).id, "file_00-8.tfrec record 0");
  EXPECT_EQ(ordered->at(8).id, "file_01-16.tfrec record 0");
  EXPECT_EQ(ordered->at(12).id, "file_00-8.tfrec record 0");
  std::set<std::string> names;
  for (int64_t i = 0; i < 12; ++i) {
    names.insert(shuffled->at(i).id);
  }
  EXPECT_EQ(names.size(), 12U);
  EXPECT_EQ(ordered->at(3).latents.shape, (Shape{DType::F32, {16, 5, 8, 8}}));
}

TEST(TfRecordSource, KeepsTimestepsAndBfloat16) {
  const auto eval = tfrecord_source({.folder = golden("dataset/tfrecords/eval"), .shuffle = false});
  const auto half = tfrecord_source({.folder = golden("dataset/tfrecords/bf16"), .shuffle = false});

  EXPECT_EQ(eval->at(2).timestep, 375);
  EXPECT_EQ(half->at(0).latents.shape.dtype, DType::BF16);
}

TEST(TfRecordSource, KeepsToTheFirstRecords) {
  const auto few = tfrecord_source({.folder = golden("dataset/tfrecords/train"), .max_samples = 3});
  std::set<std::string> names;
  for (int64_t i = 0; i < 9; ++i) {
    names.insert(few->at(i).id);
  }
  EXPECT_EQ(few->size(), 3);
  EXPECT_EQ(names, (std::set<std::string>{"file_00-8.tfrec record 0", "file_00-8.tfrec record 1",
                                          "file_00-8.tfrec record 2"}));
}

TEST(TfRecordSource, KeepsAShareOutOfTraining) {
  const auto ids = [](Split::Part part, bool by_shape) {
    const auto source = tfrecord_source({.folder = golden("dataset/tfrecords/train"),
                                         .by_shape = by_shape,
                                         .split = {.part = part, .share = 0.3, .seed = 1}});
    std::set<std::string> out;
    for (int64_t i = 0; i < 2 * source->size(); ++i) {
      out.insert(source->at(i).id);
    }
    EXPECT_EQ(static_cast<int64_t>(out.size()), source->size());
    return out;
  };
  for (const bool by_shape : {false, true}) {
    std::set<std::string> all = ids(Split::Part::TRAINED, by_shape);
    const std::set<std::string> held_out = ids(Split::Part::HELD_OUT, by_shape);
    EXPECT_FALSE(held_out.empty());
    const size_t trained = all.size();
    all.insert(held_out.begin(), held_out.end());
    EXPECT_EQ(all.size(), trained + held_out.size());
    EXPECT_EQ(all, ids(Split::Part::ALL, by_shape));
  }
}

TEST(TfRecordSource, RefusesAFolderWithADamagedShard) {
  const io::Scratch empty;
  EXPECT_THROW(tfrecord_source({.folder = golden("dataset/tfrecords/corrupt")}), Error);
  EXPECT_THAT([&] { tfrecord_source({.folder = empty.path()}); },
              ThrowsMessage<Error>(HasSubstr("no records")));
  EXPECT_THAT([&] { tfrecord_source({.folder = empty / "none"}); },
              ThrowsMessage<Error>(HasSubstr("none does not exist")));
}

/// The shards of a folder as if they were remote.
std::vector<records::RangedTfRecords> elsewhere(const std::string& folder) {
  std::vector<records::RangedTfRecords> out;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  for (const std::string& name : records::shards_of(names)) {
    const auto file = std::make_shared<io::MemoryFile>(
        io::read_text(std::filesystem::path(folder) / name), "gs://bucket/" + name);
    out.emplace_back(file, records::read_record_lengths(*file));
  }
  return out;
}

TEST(TfRecordSource, GivesTheSameSamplesOfShardsThatLieElsewhere) {
  const std::string folder = golden("dataset/tfrecords/train");
  for (const bool by_shape : {false, true}) {
    TfRecordOptions options{.folder = folder, .seed = 3, .by_shape = by_shape, .batch = 2};
    const auto here = tfrecord_source(options);
    options.folder = "gs://bucket";
    const auto there = tfrecord_source(elsewhere(folder), options);

    ASSERT_EQ(there->size(), here->size());
    for (int64_t i = 0; i < 2 * here->size(); ++i) {
      const Sample want = here->at(i);
      const Sample got = there->at(i);
      EXPECT_EQ(got.id, want.id);
      EXPECT_EQ(got.latents.bytes, want.latents.bytes);
      EXPECT_EQ(got.encoder_hidden_states.bytes, want.encoder_hidden_states.bytes);
    }
    EXPECT_EQ(there->examples().size(), here->examples().size());
  }
  EXPECT_THAT([&] { tfrecord_source({}, {.folder = "gs://bucket/x"}); },
              ThrowsMessage<Error>(HasSubstr("gs://bucket/x holds no records")));
}

}  // namespace
}  // namespace kinema::data
