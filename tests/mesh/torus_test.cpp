#include "kinema/mesh/torus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/mesh/mesh.h"

namespace kinema::mesh {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// The devices of a grid, numbered along its first axis first.
std::vector<GridPlace> grid(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    count *= size;
  }
  std::vector<GridPlace> out;
  for (int64_t id = 0; id < count; ++id) {
    GridPlace place{.id = id};
    int64_t rest = id;
    for (const int64_t size : sizes) {
      place.coordinates.push_back(rest % size);
      rest /= size;
    }
    out.push_back(std::move(place));
  }
  return out;
}

std::vector<int64_t> along(const std::vector<int64_t>& network, std::vector<int64_t> mesh) {
  return along_grid(grid(network), mesh).value_or(std::vector<int64_t>{});
}

TEST(AlongGrid, KeepsTheOrderOfIdsWhereItFits) {
  EXPECT_THAT(along({2, 2}, {1, 1, 4, 1}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(along({1, 2, 4, 1}, {4, 2}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// 2 columns, 4 rows: an axis of 4 runs along a column, not over two rows.
TEST(AlongGrid, GivesAnAxisTheGridsAxisOfItsSize) {
  EXPECT_THAT(along({2, 4}, {2, 4}), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
}

TEST(AlongGrid, TakesSeveralAxesForTheLastOne) {
  // 4 by 4 by 4: sixteen are two axes of the grid, four are one.
  const std::vector<int64_t> ids = along({4, 4, 4}, {4, 16});
  ASSERT_EQ(ids.size(), 64U);
  EXPECT_THAT(std::vector(ids.begin(), ids.begin() + 16),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  // 2 by 2 by 4: four are the two short axes rather than the long one.
  EXPECT_EQ(along({2, 2, 4}, {4, 4}), along({4, 4}, {4, 4}));
}

// The last axis must leave what the first one needs: x and y give its 4, but the 4 for the first is
// z.
TEST(AlongGrid, TriesOtherChoicesWhereTheFirstLeavesNone) {
  EXPECT_THAT(along({2, 2, 4}, {2, 2, 4}), AllOf(testing::SizeIs(16)));
  const std::vector<int64_t> ids = along({2, 2, 4}, {2, 2, 4});
  EXPECT_THAT(std::vector(ids.begin(), ids.begin() + 4), ElementsAre(0, 4, 8, 12));
}

TEST(AlongGrid, IsEmptyIfNoCompleteAxesFitOrWithoutAGrid) {
  EXPECT_THAT(along({4, 4}, {2, 8}), IsEmpty());
  std::vector<GridPlace> broken = grid({2, 2});
  broken[3].coordinates = {0, 0};
  EXPECT_EQ(along_grid(broken, std::array<int64_t, 1>{4}), std::nullopt);
  EXPECT_THAT(grid_sizes(broken), IsEmpty());
  broken[3].coordinates = {1};
  EXPECT_EQ(along_grid(broken, std::array<int64_t, 1>{4}), std::nullopt);
  EXPECT_EQ(along_grid({}, std::array<int64_t, 1>{4}), std::nullopt);
  EXPECT_THAT(grid_sizes(grid({1, 4, 2})), ElementsAre(4, 2));
}

/// Bit mask of the grid axes along which steps on this mesh axis move.
uint32_t moves(const std::vector<GridPlace>& places, const std::vector<int64_t>& ids,
               const std::vector<int64_t>& sizes, size_t axis) {
  int64_t stride = 1;
  for (size_t a = axis + 1; a < sizes.size(); ++a) {
    stride *= sizes[a];
  }
  uint32_t out = 0;
  for (int64_t i = 0; i + stride < std::ssize(ids); ++i) {
    if (i / stride % sizes[axis] + 1 == sizes[axis]) {
      continue;  // the end of a line
    }
    const auto& from = places[static_cast<size_t>(ids[static_cast<size_t>(i)])].coordinates;
    const auto& to = places[static_cast<size_t>(ids[static_cast<size_t>(i + stride)])].coordinates;
    for (size_t a = 0; a < from.size(); ++a) {
      out |= from[a] != to[a] ? 1U << a : 0U;
    }
  }
  return out;
}

TEST(AlongGrid, HoldsEveryDeviceOnceAndNoTwoAxesShareLinks) {
  const std::vector<GridPlace> places = grid({2, 4, 2, 3});
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {48}, {2, 24}, {3, 16}, {4, 2, 6}, {2, 4, 2, 3}, {3, 2, 8}, {1, 12, 1, 4}}) {
    auto ids = along_grid(places, sizes);
    ASSERT_TRUE(ids.has_value()) << sizes[0];
    uint32_t before = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const uint32_t here = moves(places, *ids, sizes, axis);
      EXPECT_EQ(before & here, 0U) << axis;
      EXPECT_EQ(here == 0, sizes[axis] == 1) << axis;
      before |= here;
    }
    std::ranges::sort(*ids);
    for (int64_t i = 0; i < 48; ++i) {
      EXPECT_EQ((*ids)[static_cast<size_t>(i)], i);
    }
  }
}

TEST(Mesh, TakesWholeAxesOfTheNetwork) {
  std::vector<Device> devices;
  for (const GridPlace& place : grid({1, 2, 4})) {
    devices.push_back({.id = place.id, .slice = 0, .coordinates = place.coordinates});
  }
  Settings config;
  config.ici_data_parallelism = 2;
  config.ici_fsdp_parallelism = 1;
  config.ici_context_parallelism = 4;
  config.ici_tensor_parallelism = 1;
  EXPECT_THAT(make_mesh(config, devices).device_ids, ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
}

TEST(Mesh, RefusesToSplitAnAxisOfTheNetworkUnlessAllowed) {
  std::vector<Device> devices;
  for (const GridPlace& place : grid({1, 4, 4})) {
    devices.push_back({.id = place.id, .slice = 0, .coordinates = place.coordinates});
  }
  Settings config;
  config.ici_data_parallelism = 1;
  config.ici_fsdp_parallelism = 2;
  config.ici_context_parallelism = 8;
  config.ici_tensor_parallelism = 1;
  EXPECT_THAT([&] { make_mesh(config, devices); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr("ici_fsdp_parallelism=2 x ici_context_parallelism=8 takes no whole "
                            "axes of the 4 x 4 network"),
                  HasSubstr("allow_split_physical_axes=true"))));
  config.allow_split_physical_axes = true;
  EXPECT_THAT(make_mesh(config, devices).device_ids,
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

}  // namespace
}  // namespace kinema::mesh
