#include "data/tfrecord_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "io/scratch.h"

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

TEST(TfRecordSource, RefusesAFolderWithADamagedShard) {
  const io::Scratch empty;
  EXPECT_THROW(tfrecord_source({.folder = golden("dataset/tfrecords/corrupt")}), Error);
  EXPECT_THAT([&] { tfrecord_source({.folder = empty.path()}); },
              ThrowsMessage<Error>(HasSubstr("no records")));
  EXPECT_THAT([&] { tfrecord_source({.folder = empty / "none"}); },
              ThrowsMessage<Error>(HasSubstr("not a folder")));
}

}  // namespace
}  // namespace kinema::data
