#include "kinema/text/prompt_syntax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kinema::text {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PromptSyntax, NamesWhatOtherProgramsReadAsMoreThanWords) {
  EXPECT_THAT(prompt_syntax("(a red ball:1.3), [blurry]"), ElementsAre("(a red ball:1.3)"));
  EXPECT_THAT(prompt_syntax("a ball BREAK a box"), ElementsAre("BREAK"));
  EXPECT_THAT(prompt_syntax("a ball <lora:style:0.8>"), ElementsAre("<lora:style:0.8>"));
  EXPECT_THAT(embedding_names("a ball, embedding:easy-negative"), ElementsAre("easy-negative"));
  EXPECT_THAT(embedding_names("(embedding:a_b.pt:1.2), embedding:c. The embedding: d"),
              ElementsAre("a_b.pt", "c"));
  EXPECT_TRUE(has_and("a ball AND a cat"));
  EXPECT_FALSE(has_and("a BAND and a cat"));
  EXPECT_THAT(prompt_syntax("((a), (b:.5)) BREAK, <lyco:x:1>,BREAK embedding:y"),
              ElementsAre("(b:.5)", "BREAK", "<lyco:x:1>"));
}

TEST(PromptSyntax, LeavesWordsAlone) {
  for (const char* prompt :
       {"", "a ball (red)", "at 12:30 (noon)", "BREAKFAST at a lake", "(ratio 16:9", "x < lora: y",
        "the embedding: a word", "(:1.3)", R"(\(a:1.3\))", "BREAK_IT", "<lora:never closed"}) {
    EXPECT_THAT(prompt_syntax(prompt), IsEmpty()) << prompt;
  }
}

TEST(PromptSyntax, ShowsNoMoreThanAMessageHolds) {
  const std::string text = "(" + std::string(1000, 'a') + ":1.3)";
  ASSERT_EQ(prompt_syntax(text).size(), 1U);
  EXPECT_LT(prompt_syntax(text)[0].size(), 100U);
}

}  // namespace
}  // namespace kinema::text
