#include "kinema/data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

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
  const auto held_out = split(Split::Part::HELD_OUT, 0.1).chosen(all, "set");
  std::set<int64_t> together(trained.begin(), trained.end());
  together.insert(held_out.begin(), held_out.end());
  EXPECT_EQ(together.size(), 2000);
  EXPECT_EQ(trained.size() + held_out.size(), 2000);
  EXPECT_EQ(held_out.size(), 200);
}

TEST(Split, KeepsTheNearestWholeNumberOutButAtLeastOne) {
  for (const auto& [samples, share, wanted] : {std::tuple{10, 0.1, 1},
                                               {10, 0.14, 1},
                                               {10, 0.16, 2},
                                               {12, 0.2, 2},
                                               {13, 0.2, 3},
                                               {4, 0.0001, 1},
                                               {4, 0.99, 3},
                                               {2, 0.5, 1},
                                               {2, 0.9, 1},
                                               {3, 0.5, 2}}) {
    SCOPED_TRACE(samples);
    EXPECT_EQ(split(Split::Part::HELD_OUT, share).chosen(names(samples), "set").size(), wanted);
    EXPECT_EQ(split(Split::Part::TRAINED, share).chosen(names(samples), "set").size(),
              samples - wanted);
  }
}

TEST(Split, DoesNotDependOnTheOrderOfTheNames) {
  std::vector<std::string> all = names(30);
  const auto chosen = [&] {
    std::set<std::string> out;
    for (const int64_t i : split(Split::Part::HELD_OUT, 0.2).chosen(all, "set")) {
      out.insert(all[static_cast<size_t>(i)]);
    }
    return out;
  };
  const std::set<std::string> before = chosen();
  std::ranges::reverse(all);
  EXPECT_EQ(chosen(), before);
}

TEST(Split, MovesOnlySamplesNearTheBorderWhenTheSetGrows) {
  const auto held_out = split(Split::Part::HELD_OUT, 0.1);
  const auto before = held_out.chosen(names(500), "set");
  const auto after = held_out.chosen(names(1000), "set");
  int64_t moved = 0;
  for (const int64_t clip : before) {
    moved += std::ranges::count(after, clip) == 0 ? 1 : 0;
  }
  EXPECT_EQ(after.size(), 100);
  // The boundary is an order statistic: its share deviates by sqrt(0.1 * 0.9 / 500) = 1.3 percent
  // of the 500, 7 samples; three deviations.
  EXPECT_LE(moved, 20);
}

TEST(Split, IsAnotherOneForAnotherSeed) {
  const auto all = names(500);
  EXPECT_NE(split(Split::Part::HELD_OUT, 0.1, 1).chosen(all, "set"),
            split(Split::Part::HELD_OUT, 0.1, 2).chosen(all, "set"));
}

TEST(Split, TakesAllWhereNothingIsKeptOut) {
  EXPECT_EQ(split(Split::Part::TRAINED, 0).chosen(names(5), "set").size(), 5);
  EXPECT_EQ(split(Split::Part::ALL, 0.5).chosen(names(5), "set").size(), 5);
}

TEST(Split, OfASingleSampleIsRefused) {
  EXPECT_THAT([] { split(Split::Part::TRAINED, 0.5).chosen(names(1), "clips"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("eval_split 0.5 keeps one sample of clips out"),
                                         HasSubstr("eval_data_dir=FOLDER"))));
}

}  // namespace
}  // namespace kinema::data
