#include "kinema/data/caption_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace kinema::data {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::set<std::string> all_variants(const std::string& caption, CaptionRules rules,
                                   int64_t count = 200) {
  std::set<std::string> out;
  for (int64_t i = 0; i < count; ++i) {
    out.insert(varied_caption(caption, rules, i));
  }
  return out;
}

TEST(CaptionRules, LeaveACaptionAsItIsWithoutRules) {
  EXPECT_EQ(varied_caption(" a,b \nc {d|e}", {.variants = 5}, 3), " a,b \nc {d|e}");
  EXPECT_EQ((CaptionRules{.variants = 5}.count()), 1);
  EXPECT_EQ((CaptionRules{.shuffle = true, .variants = 5}.count()), 5);
}

TEST(CaptionRules, ShuffleTagsAfterThoseThatStay) {
  const CaptionRules rules{.shuffle = true, .keep = 1};
  EXPECT_THAT(all_variants("fox, snow,  night ,red", rules),
              UnorderedElementsAre("fox, snow, night, red", "fox, snow, red, night",
                                   "fox, night, snow, red", "fox, night, red, snow",
                                   "fox, red, snow, night", "fox, red, night, snow"));
  const CaptionRules marked{.shuffle = true, .keep_separator = "|||"};
  EXPECT_THAT(all_variants("1girl, fox ||| a, b", marked),
              UnorderedElementsAre("1girl, fox, a, b", "1girl, fox, b, a"));
  EXPECT_THAT(all_variants("a, b", marked), UnorderedElementsAre("a, b", "b, a"));
  const CaptionRules semicolons{.shuffle = true, .separator = ";"};
  EXPECT_THAT(all_variants("a, b; c", semicolons), UnorderedElementsAre("a, b; c", "c; a, b"));
  EXPECT_EQ(varied_caption("", rules, 0), "");
  EXPECT_EQ(varied_caption("fox", {.shuffle = true, .keep = 9}, 0), "fox");
}

TEST(CaptionRules, ShuffleEveryOrderAboutEquallyOften) {
  std::map<std::string, int> counts;
  constexpr int kDraws = 6000;
  for (int64_t i = 0; i < kDraws; ++i) {
    ++counts[varied_caption("a, b, c", {.shuffle = true}, i)];
  }
  EXPECT_EQ(counts.size(), 6U);
  for (const auto& [caption, count] : counts) {
    // Four standard deviations of a binomial count of mean 1000.
    EXPECT_NEAR(count, 1000, 4 * 28.9) << caption;
  }
}

TEST(CaptionRules, LeaveOutAFractionOfTags) {
  const CaptionRules rules{.dropout = 0.25, .keep = 1};
  int kept = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const std::string caption = varied_caption("fox, a, b, c, d", rules, i);
    EXPECT_THAT(caption, StartsWith("fox"));
    kept += static_cast<int>(std::ranges::count(caption, ','));
  }
  // Of 4000 tags, with a standard deviation of 27.
  EXPECT_NEAR(kept, 3000, 4 * 27);
  EXPECT_EQ(varied_caption("a, b", {.dropout = 1.0}, 0), "");
}

TEST(CaptionRules, ChooseOneOfEachPairOfBraces) {
  const CaptionRules rules{.wildcards = true};
  EXPECT_THAT(all_variants("a {red|blue} {fox|owl}", rules),
              UnorderedElementsAre("a red fox", "a red owl", "a blue fox", "a blue owl"));
  EXPECT_THAT(all_variants("{a||b}", rules), UnorderedElementsAre("a", "", "b"));
  EXPECT_EQ(varied_caption("{{a|b}} {c} {d", rules, 0), "{a|b} c {d");
  EXPECT_EQ(varied_caption("a } b", rules, 0), "a } b");
}

TEST(CaptionRules, ChooseOneOfTheLines) {
  const CaptionRules rules{.any_line = true, .shuffle = true};
  EXPECT_THAT(all_variants("a fox\r\n\n owl, snow\n", rules),
              UnorderedElementsAre("a fox", "owl, snow", "snow, owl"));
  EXPECT_THAT(all_variants("\n\n", rules), Each(AnyOf("")));
}

TEST(CaptionRules, AreAFunctionOfSeedCaptionAndNumber) {
  const CaptionRules rules{.shuffle = true, .seed = 7};
  const std::string caption = "a, b, c, d, e, f, g, h";
  EXPECT_EQ(varied_caption(caption, rules, 3), varied_caption(caption, rules, 3));
  CaptionRules other = rules;
  other.seed = 8;
  EXPECT_NE(varied_caption(caption, rules, 3), varied_caption(caption, other, 3));
}

}  // namespace
}  // namespace kinema::data
