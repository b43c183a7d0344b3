#include "kinema/weights/module_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<std::string> kNames{"blocks.0.attn1.to_q", "blocks.0.attn1.to_out.0",
                                      "blocks.1.attn1.to_q", "proj_out"};

std::vector<std::string> named(const std::vector<std::string>& words) {
  return named_by(kNames, words, "lora_target_modules");
}

TEST(NamedBy, TakesNamesEndsAndPatternsInTheOrderOfTheModules) {
  EXPECT_THAT(named({"to_q"}), ElementsAre("blocks.0.attn1.to_q", "blocks.1.attn1.to_q"));
  EXPECT_THAT(named({"proj_out", "blocks.1.attn1.to_q"}),
              ElementsAre("blocks.1.attn1.to_q", "proj_out"));
  EXPECT_THAT(named({"attn1.to_out.0"}), ElementsAre("blocks.0.attn1.to_out.0"));
  EXPECT_THAT(named({R"(blocks\.\d+\.attn1\.to_(q|k))"}),
              ElementsAre("blocks.0.attn1.to_q", "blocks.1.attn1.to_q"));
  EXPECT_THAT(named({"(?!blocks).*"}), ElementsAre("proj_out"));
}

TEST(NamedBy, DoesNotTakeHalfAWord) {
  EXPECT_THAT([] { named({"o_q"}); }, ThrowsMessage<Error>(HasSubstr("`o_q`")));
  EXPECT_THAT([] { named({"blocks"}); }, ThrowsMessage<Error>(HasSubstr("`blocks`")));
}

TEST(NamedBy, NamesTheNearestModule) {
  EXPECT_THAT([] { named({"to_query"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("lora_target_modules"), HasSubstr("to_query"),
                                         HasSubstr("an existing one is `blocks."))));
  EXPECT_THAT([] { named({"proj_uot"}); },
              ThrowsMessage<Error>(HasSubstr("the nearest is `proj_out`")));
}

TEST(NamedBy, SaysOfOtherModulesThatTheyAreNoLinearLayers) {
  const std::vector<std::string> others{"blocks", "blocks.0", "blocks.0.norm2"};
  for (const std::string word : {"norm2", "blocks.0.norm2"}) {
    EXPECT_THAT(
        [&] { named_by(kNames, std::vector{word}, "lora_target_modules", others); },
        ThrowsMessage<Error>(HasSubstr("lora_target_modules: `" + word +
                                       "` is `blocks.0.norm2`, which is not a linear layer")));
  }
  EXPECT_THAT(
      [&] { named_by(kNames, std::vector<std::string>{"norm"}, "lora_target_modules", others); },
      ThrowsMessage<Error>(HasSubstr("no module of the transformer")));
}

TEST(NamedBy, RefusesWhatIsNoPattern) {
  EXPECT_THAT([] { named({"(to_q"}); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("lora_target_modules"), HasSubstr("not a regular expression"))));
}

}  // namespace
}  // namespace kinema::weights
