#include "kinema/text/compel_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kinema/core/error.h"

// Expected values are those of compel 2.5.1; tests/peers/prompts.py compares more.
namespace kinema::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Part = WeightedText;

std::vector<Part> parts(const std::string& prompt) {
  const CompelPrompt made = parse_compel(prompt);
  EXPECT_EQ(made.clauses.size(), 1U);
  EXPECT_EQ(made.clauses[0].texts.size(), 1U);
  return made.clauses[0].texts[0];
}

std::string error_of(const std::string& prompt) {
  try {
    parse_compel(prompt);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CompelPrompt, SignsAndNumbersAreWeights) {
  EXPECT_THAT(parts("a red++ ball-"),
              ElementsAre(Part{"a", 1.0}, Part{"red", std::pow(1.1, 2)}, Part{"ball", 0.9}));
  EXPECT_THAT(parts("a (red, big ball)1.3 rolls"),
              ElementsAre(Part{"a", 1.0}, Part{"red , big ball", 1.3}, Part{"rolls", 1.0}));
  EXPECT_THAT(parts("((a b)+ c)0.5"), ElementsAre(Part{"a b", 1.1 * 0.5}, Part{"c", 0.5}));
  EXPECT_THAT(parts("\"a b\"1.2, (c).attend(++)"),
              ElementsAre(Part{"a b", 1.2}, Part{",", 1.0}, Part{"c", std::pow(1.1, 2)}));
}

TEST(CompelPrompt, OtherTextIsText) {
  EXPECT_THAT(parts("a (b) c"), ElementsAre(Part{"a b c", 1.0}));
  EXPECT_THAT(parts("a,b well-known + (x = y)+ .5"),
              ElementsAre(Part{"a, b well-known + (x = y)+ .5", 1.0}));
  EXPECT_THAT(parts("a \\(b\\) (unclosed c"), ElementsAre(Part{"a (b) (unclosed c", 1.0}));
  EXPECT_THAT(parts("  "), ElementsAre(Part{"", 1.0}));
}

TEST(CompelPrompt, BlendsAndConjunctionsHaveTexts) {
  const CompelPrompt blend = parse_compel("(\"a ball+\", b).blend(0.7, -0.3, no_normalize)");
  ASSERT_EQ(blend.clauses.size(), 1U);
  EXPECT_THAT(blend.clauses[0].texts, ElementsAre(ElementsAre(Part{"a", 1.0}, Part{"ball", 1.1}),
                                                  ElementsAre(Part{"b", 1.0})));
  EXPECT_THAT(blend.clauses[0].shares, ElementsAre(0.7, -0.3));
  EXPECT_FALSE(blend.clauses[0].normalize);
  const CompelPrompt both = parse_compel("(\"a (x\", \"b\").and(1, 0.5)");
  ASSERT_EQ(both.clauses.size(), 2U);
  EXPECT_THAT(both.clauses[0].texts[0], ElementsAre(Part{"a (x", 1.0}));
  EXPECT_EQ(both.clauses[1].weight, 0.5);
}

TEST(CompelPrompt, NamesLoras) {
  const CompelPrompt made = parse_compel("a ball withLora(style, 0.8) useLora(x)");
  EXPECT_THAT(made.loras, ElementsAre(LoraTag{"style", 0.8}, LoraTag{"x", 1.0}));
  EXPECT_THAT(made.clauses[0].texts[0], ElementsAre(Part{"a ball", 1.0}));
}

TEST(CompelPrompt, RefusesByName) {
  EXPECT_THAT(error_of("a cat.swap(dog)"), HasSubstr("`.swap(...)`"));
  EXPECT_THAT(error_of("(\"a\", \"b\").blend(1)"), HasSubstr("1 weights for 2 texts"));
  EXPECT_THAT(error_of("(\"a\", \"b\").blend(1, 1) more"), HasSubstr("text after `.blend(...)`"));
}

TEST(CompelPrompt, DeepBracketsAreText) {
  const std::string deep = std::string(5000, '(') + "a" + std::string(5000, ')') + "+";
  EXPECT_FALSE(parse_compel(deep).clauses.empty());
}

}  // namespace
}  // namespace kinema::text
