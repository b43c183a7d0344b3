// A resumed run with values that differ from those at its start.
#include "kinema/config/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/config/keys.h"
#include "kinema/core/error.h"

namespace kinema::config {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::ThrowsMessage;

Record with(const std::vector<std::string>& words) {
  return record_of(load_defaults(words).config);
}

TEST(ARecord, ContainsOnlyKeysThatAffectTheResult) {
  const Record record = record_of(Config{});

  EXPECT_EQ(record.at("learning_rate"), "1e-05");
  EXPECT_EQ(record.at("attention"), "\"flash\"");
  EXPECT_EQ(record.at("patch_size"), "[1, 2, 2]");
  for (const char* key : {"run_name", "output_dir", "checkpoint_dir", "metrics_file", "prompt"}) {
    EXPECT_THAT(record, Not(Contains(Key(key))));
  }
}

TEST(Changes, AreALineForEachKeyOldToNew) {
  const Record before = with({"learning_rate=1e-4", "attention=flash"});
  const Record now = with({"learning_rate=2e-4", "attention=ring", "train_data_dir=clips",
                           "run_name=other", "log_period=7"});

  EXPECT_THAT(changes(before, now),
              ElementsAre("attention: flash -> ring", "learning_rate: 0.0001 -> 0.0002",
                          "train_data_dir: '' -> clips"));
  EXPECT_THAT(changes(before, before), IsEmpty());
}

TEST(Changes, IgnoreTheSpellingOfEqualValues) {
  EXPECT_THAT(changes(with({"learning_rate=1e-4"}), with({"learning_rate=0.0001"})), IsEmpty());
  EXPECT_THAT(changes(with({"buckets=[[9, 32, 48]]"}), with({"buckets=[[9,32,48]]"})), IsEmpty());
}

TEST(KeyThatMustMatch, IsRefusedWithBothValuesAndTheRemedy) {
  EXPECT_THAT([] { check_matches(with({"seed=1"}), with({"seed=2"}), "out/a/checkpoints/7"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("seed is 2"), HasSubstr("started with 1"),
                                         HasSubstr("out/a/checkpoints/7"), HasSubstr("seed=1"))));
  EXPECT_NO_THROW(check_matches(with({"learning_rate=1"}), with({"learning_rate=2"}), ""));
}

TEST(KeyThatMustMatch, AffectsTheOrderOfSamplesOrTheModel) {
  for (const char* word :
       {"max_train_samples=7", "enable_data_shuffling=false", "buckets=[[9,32,48]]",
        "dataset_type=videos", "num_layers=7", "autoencoder=space_to_depth",
        "space_to_depth_block=2", "global_batch_size=3", "gradient_accumulation_steps=2"}) {
    SCOPED_TRACE(word);
    EXPECT_THROW(check_matches(with({}), with({word}), ""), Error);
  }
}

TEST(KeyThatMustMatch, MayDifferIfItHasNoEffect) {
  EXPECT_NO_THROW(check_matches(with({"lora_rank=8"}), with({"lora_rank=4"}), ""));
  EXPECT_THAT(changes(with({"lora_rank=8"}), with({"lora_rank=4"})), IsEmpty());
  EXPECT_THROW(check_matches(with({"enable_lora=true", "lora_rank=8"}),
                             with({"enable_lora=true", "lora_rank=4"}), ""),
               Error);
}

TEST(ARecordOfAnotherVersion, ComparesOnlyKeysOfBothVersions) {
  Record before = with({"seed=1"});
  before["a_key_of_the_past"] = "3";
  before.erase("num_layers");

  EXPECT_NO_THROW(check_matches(before, with({"seed=1", "num_layers=3"}), ""));
  EXPECT_THAT(changes(before, with({"seed=1", "num_layers=3"})), IsEmpty());
}

}  // namespace
}  // namespace kinema::config
