#include "kinema/data/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kinema/core/error.h"

namespace kinema::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Mixture, HasTheProportionsOfTheWeightsInEveryCycle) {
  const Mixture mixture({0.7, 0.2, 0.1}, 3, /*shuffle=*/true);
  EXPECT_THAT(mixture.counts(), ElementsAre(7, 2, 1));
  for (int64_t cycle = 0; cycle < 50; ++cycle) {
    std::vector<int64_t> counts(3);
    for (int64_t i = 0; i < 10; ++i) {
      ++counts[mixture.at(cycle * 10 + i).set];
    }
    EXPECT_THAT(counts, ElementsAre(7, 2, 1)) << cycle;
  }
}

TEST(Mixture, CountsThePlacesOfEachSetWithoutAGap) {
  const Mixture mixture({3, 2}, 9, /*shuffle=*/true);
  std::vector<std::set<int64_t>> places(2);
  for (int64_t position = 0; position < 100; ++position) {
    const Mixture::Place place = mixture.at(position);
    EXPECT_TRUE(places[place.set].insert(place.index).second) << position;
  }
  EXPECT_EQ(places[0].size(), 60U);
  EXPECT_EQ(*places[0].rbegin(), 59);
  EXPECT_EQ(places[1].size(), 40U);
  EXPECT_EQ(*places[1].rbegin(), 39);
}

TEST(Mixture, DependsOnSeedAndPositionOnly) {
  const auto order = [](const Mixture& mixture) {
    std::vector<size_t> out;
    for (int64_t position = 1000; position < 1040; ++position) {
      out.push_back(mixture.at(position).set);
    }
    return out;
  };
  EXPECT_EQ(order({{1, 1}, 4, true}), order({{5, 5}, 4, true}));
  EXPECT_NE(order({{1, 1, 1}, 4, true}), order({{1, 1, 1}, 5, true}));
  const Mixture stored({2, 1}, 4, /*shuffle=*/false);
  EXPECT_EQ(stored.at(0).set + stored.at(1).set, 0U);
  EXPECT_EQ(stored.at(2).set, 1U);
  EXPECT_EQ(stored.at(5).index, 1);
}

TEST(Mixture, RoundsToThousandths) {
  EXPECT_THAT(Mixture({1, 1, 1}, 0, true).counts(), ElementsAre(1, 1, 1));
  EXPECT_THAT(Mixture({1, 1, 1.00001}, 0, true).counts(), ElementsAre(333, 333, 334));
  EXPECT_THAT(Mixture({0.3}, 0, true).counts(), ElementsAre(1));
  EXPECT_THAT(
      [] {
        Mixture({1000, 0.1}, 0, true);
      },
      ThrowsMessage<Error>(HasSubstr("weight 0.1, which is less than a thousandth")));
  EXPECT_THAT(
      [] {
        Mixture({1, -1}, 0, true);
      },
      ThrowsMessage<Error>(HasSubstr("weight -1, expected above 0")));
}

}  // namespace
}  // namespace kinema::data
