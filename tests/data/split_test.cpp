#include "kinema/data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kinema/core/error.h"

namespace kinema::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> names(int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    out.push_back("clip_" + std::to_string(i) + ".mp4");
  }
  return out;
}

Split split(Split::Part part, double share, uint64_t seed = 0) {
  return {.part = part, .share = share, .seed = seed};
}

TEST(Split, PutsEachSampleOnOneSide) {
  const auto all = names(2000);
  const auto trained = split(Split::Part::TRAINED, 0.1).chosen(all, "set");
  const auto kept_out = split(Split::Part::KEPT_OUT, 0.1).chosen(all, "set");
  std::set<int64_t> together(trained.begin(), trained.end());
  together.insert(kept_out.begin(), kept_out.end());
  EXPECT_EQ(together.size(), 2000);
  EXPECT_EQ(trained.size() + kept_out.size(), 2000);
  // 200 on the average; six deviations of sqrt(2000 * 0.1 * 0.9) to each side.
  EXPECT_NEAR(static_cast<double>(kept_out.size()), 200, 80);
}

TEST(Split, MovesNoSampleWhenTheSetGrows) {
  const auto kept_out = split(Split::Part::KEPT_OUT, 0.1);
  const auto before = kept_out.chosen(names(500), "set");
  const auto after = kept_out.chosen(names(1000), "set");
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
  EXPECT_GT(after.size(), before.size());
}

TEST(Split, IsAnotherOneForAnotherSeed) {
  const auto all = names(500);
  EXPECT_NE(split(Split::Part::KEPT_OUT, 0.1, 1).chosen(all, "set"),
            split(Split::Part::KEPT_OUT, 0.1, 2).chosen(all, "set"));
}

TEST(Split, TakesAllWhereNothingIsKeptOut) {
  EXPECT_EQ(split(Split::Part::TRAINED, 0).chosen(names(5), "set").size(), 5);
  EXPECT_EQ(split(Split::Part::ALL, 0.5).chosen(names(5), "set").size(), 5);
}

TEST(Split, ThatLeavesNothingIsRefusedWithAShareThatWorks) {
  const auto few = names(4);
  const auto chosen = [&](double share) {
    return [&few, share] { split(Split::Part::TRAINED, share).chosen(few, "clips"); };
  };
  std::string said;
  try {
    chosen(0.0001)();
  } catch (const Error& error) {
    said = error.what();
  }
  ASSERT_THAT(said,
              AllOf(HasSubstr("keeps none of the 4 samples of clips"), HasSubstr("eval_split=0.")));
  const double share = std::stod(said.substr(said.rfind("eval_split=") + 11));
  EXPECT_EQ(split(Split::Part::KEPT_OUT, share).chosen(few, "clips").size(), 1);
  EXPECT_THAT(chosen(0.99999999), ThrowsMessage<Error>(HasSubstr("leaves none of the 4 samples")));
}

}  // namespace
}  // namespace kinema::data
