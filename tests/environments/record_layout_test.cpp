#include "kinema/environments/record_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace kinema::environments {
namespace {

TEST(RecordLayout, PlacesEveryArrayApart) {
  ServedSpaces spaces;
  spaces.actions["a"] = {DType::S32, {}, 0, 3};
  spaces.actions["b"] = {DType::F32, {5}};
  spaces.observations["image"] = {DType::U8, {3, 5, 3}, 0, 256};
  spaces.observations["x"] = {DType::F32, {}};
  spaces.log = {"log/a", "log/b"};
  constexpr int64_t kCount = 7;
  const RecordLayout layout(spaces, kCount, "task");
  std::vector<std::pair<int64_t, int64_t>> places{{layout.actions.at("a"), 4 * kCount},
                                                  {layout.actions.at("b"), 20 * kCount},
                                                  {layout.reset, kCount},
                                                  {layout.observations.at("image"), 45 * kCount},
                                                  {layout.observations.at("x"), 4 * kCount},
                                                  {layout.reward, 4 * kCount},
                                                  {layout.is_first, kCount},
                                                  {layout.is_last, kCount},
                                                  {layout.is_terminal, kCount},
                                                  {layout.restarted, kCount},
                                                  {layout.log.at("log/a"), 4 * kCount},
                                                  {layout.log.at("log/b"), 4 * kCount},
                                                  {layout.bytes, 0}};
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    EXPECT_EQ(places[i].first % 64, 0) << i;
    EXPECT_LE(places[i].first + places[i].second, places[i + 1].first) << i;
  }
  EXPECT_EQ(layout.replies, layout.observations.at("image"));
  EXPECT_EQ(layout.json().at("observations").at("x").as_int(), layout.observations.at("x"));
}

}  // namespace
}  // namespace kinema::environments
