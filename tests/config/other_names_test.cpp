// Hints for keys that only other trainers have.
#include "kinema/config/other_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kinema/config/keys.h"
#include "kinema/core/error.h"

namespace kinema::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

bool is_key(std::string_view word) {
  const std::vector<KeyValue> keys = describe(Config{});
  return std::ranges::find(keys, word, &KeyValue::key) != keys.end();
}

TEST(OtherNames, NameKeysAndAreNotKeysThemselves) {
  for (const OtherName& each : other_names()) {
    SCOPED_TRACE(each.other);
    EXPECT_FALSE(is_key(each.other)) << "it is a key: it never gets here";
    EXPECT_FALSE(is_ignored(each.other));
    EXPECT_TRUE(each.key.empty() ? !each.note.empty() : is_key(each.key)) << each.key;
  }
}

TEST(AnUnknownKey, OfAnotherTrainerNamesOursOrTheMissingFeature) {
  const auto say = [](const std::string& key) {
    return [key] { load_defaults(std::vector<std::string>{key + "=1"}); };
  };
  EXPECT_THAT(say("report_to"),
              ThrowsMessage<Error>(AllOf(HasSubstr("not built"), HasSubstr("metrics.jsonl"))));
  EXPECT_THAT(say("load_in_4bit"), ThrowsMessage<Error>(HasSubstr("`weights_storage`")));
  EXPECT_THAT(say("network_dim"), ThrowsMessage<Error>(HasSubstr("`lora_rank`")));
  EXPECT_THAT(say("lr_scheduler"), ThrowsMessage<Error>(HasSubstr("`lr_schedule`")));
  EXPECT_THAT(say("ici_fsdp_batch_parallelism"),
              ThrowsMessage<Error>(HasSubstr("the nearest is `ici_fsdp_parallelism`")));
  EXPECT_THAT(say("checkpoints_total_limit"),
              ThrowsMessage<Error>(HasSubstr("the nearest is `checkpoints_to_keep`")));
}

TEST(AnUnknownKey, GetsNoSuggestionIfNoKeyIsSimilar) {
  EXPECT_THAT([] { load_defaults(std::vector<std::string>{"qqzzxxy=1"}); },
              ThrowsMessage<Error>(AllOf(Not(HasSubstr("nearest")), HasSubstr("kinema config"))));
}

TEST(AVariable, WithATypoInAKeyIsRefused) {
  const auto with = [](const char* variable) {
    return [variable] { load_defaults({}, std::vector<std::string>{variable}); };
  };
  for (const char* variable : {"KINEMA_MAX_TRAIN_STEP=9", "KINEMA_MAX_TRAIN_STEPS=9"}) {
    EXPECT_THAT(with(variable), ThrowsMessage<Error>(HasSubstr("KINEMA_KEY_MAX_TRAIN_STEPS")));
  }
  for (const char* variable : {"KINEMA_CACHE=a", "KINEMA_JOBS=2", "KINEMA_DEVELOPER=ON",
                               "KINEMA_PJRT_CPU=a.so", "KINEMA_FUZZ_SECONDS=3", "KINEMA_HOME=a",
                               "KINEMA_PJRT_PLUGIN=a.so", "KINEMA_=1", "KINEMA_TOKEN=a"}) {
    EXPECT_NO_THROW(with(variable)()) << variable;
  }
}

TEST(AnIntegerBeyondThoseThatAreRead, NamesTheLimits) {
  EXPECT_THAT(
      [] { load_defaults(std::vector<std::string>{"max_train_steps=99999999999999999999"}); },
      ThrowsMessage<Error>(HasSubstr("integers go from -9223372036854775808 to "
                                     "9223372036854775807")));
}

}  // namespace
}  // namespace kinema::config
