#include "kinema/text/a1111_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/text/prompt_schedule.h"

namespace kinema::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Part = WeightedText;

TEST(A1111Prompt, BracketsMultiplyWeights) {
  EXPECT_THAT(parse_a1111("a (red:1.3), [blurry] ((b) c:2)"),
              ElementsAre(ElementsAre(Part{"a ", 1.0}, Part{"red", 1.3}, Part{", ", 1.0},
                                      Part{"blurry", 1 / 1.1}, Part{" ", 1.0}, Part{"b", 1.1 * 2},
                                      Part{" c", 2.0})));
  EXPECT_THAT(parse_a1111("a \\(b\\) \\[c\\] \\\\"),
              ElementsAre(ElementsAre(Part{"a (b) [c] \\", 1.0})));
}

TEST(A1111Prompt, BracketsWithoutPartnersWeightTheRest) {
  EXPECT_THAT(parse_a1111("a (b"), ElementsAre(ElementsAre(Part{"a ", 1.0}, Part{"b", 1.1})));
  EXPECT_THAT(parse_a1111("a:b) c:1.2)]"), ElementsAre(ElementsAre(Part{"a:b) c:1.2)]", 1.0})));
  EXPECT_THAT(parse_a1111(""), ElementsAre(ElementsAre(Part{"", 1.0})));
  EXPECT_THROW(parse_a1111(std::string(300, '(')), Error);
}

TEST(A1111Prompt, BreakStartsASection) {
  EXPECT_THAT(
      parse_a1111("a ball BREAK\n a box BREAKER"),
      ElementsAre(ElementsAre(Part{"a ball", 1.0}), ElementsAre(Part{"a box BREAKER", 1.0})));
  EXPECT_THAT(parse_a1111("(a BREAK b:0.5)"),
              ElementsAre(ElementsAre(Part{"a", 0.5}), ElementsAre(Part{"b", 0.5})));
}

TEST(A1111Prompt, TagsNameLoras) {
  const std::string prompt = "a ball <lora:style:0.8> <lyco:x> <3 <a:";
  EXPECT_THAT(lora_tags(prompt), ElementsAre(LoraTag{"style", 0.8}, LoraTag{"x", 1.0}));
  EXPECT_EQ(without_tags(prompt), "a ball   <3 <a:");
  EXPECT_THAT(lora_tags("a < b > c, <lora:>"), IsEmpty());
  try {
    lora_tags("<lora:style:0.8:0.5>");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected one scale: <lora:style:0.8>"));
  }
  EXPECT_THROW(lora_tags("<hypernet:x:1>"), Error);
}

TEST(PromptSchedule, ChangesAfterAStep) {
  EXPECT_THAT(prompt_schedule("a [red:blue:0.5] ball", 10),
              ElementsAre(TextUntil{5, "a red ball"}, TextUntil{10, "a blue ball"}));
  EXPECT_THAT(prompt_schedule("a [big :3]ball[::x]", 10),
              ElementsAre(TextUntil{3, "a ball[::x]"}, TextUntil{10, "a big ball[::x]"}));
  EXPECT_THAT(prompt_schedule("[a:[b:c:8]: 2 ]", 10),
              ElementsAre(TextUntil{2, "a"}, TextUntil{8, "b"}, TextUntil{10, "c"}));
  EXPECT_THAT(prompt_schedule("[a::4] (x:1.2) [y]", 10),
              ElementsAre(TextUntil{4, "a (x:1.2) [y]"}, TextUntil{10, " (x:1.2) [y]"}));
}

TEST(PromptSchedule, TakesTurns) {
  EXPECT_THAT(prompt_schedule("[cow|horse|] in a field", 4),
              ElementsAre(TextUntil{1, "cow in a field"}, TextUntil{2, "horse in a field"},
                          TextUntil{3, " in a field"}, TextUntil{4, "cow in a field"}));
}

TEST(PromptSchedule, OtherBracketsAreText) {
  for (const char* text : {"a [b] (c:1.2)", "[a:b:c]", "[a|b:3]", "[a", "a:b|c]", "\\[a:b:3]", "",
                           "((((", "[[a:0.5]"}) {
    const std::vector<TextUntil> made = prompt_schedule(text, 6);
    EXPECT_EQ(made.back().last_step, 6) << text;
    if (std::string(text) != "[[a:0.5]") {
      EXPECT_THAT(made, ElementsAre(TextUntil{6, text}));
    }
  }
  EXPECT_EQ(prompt_schedule(std::string(100000, '['), 6).size(), 1U);
}

}  // namespace
}  // namespace kinema::text
