#include "kinema/mesh/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"

namespace kinema::mesh {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Mesh mesh(std::vector<std::pair<std::string, int64_t>> sizes) {
  Mesh out{{std::move(sizes)}};
  int64_t count = 1;
  for (const auto& [name, size] : out.axes.axes) count *= size;
  for (int64_t id = 0; id < count; ++id) out.device_ids.push_back(id);
  return out;
}

TEST(Blocks, FollowTheMeshRowByRow) {
  const std::vector<Block> blocks = blocks_of(mesh({{"x", 2}, {"y", 3}}), {{{"y"}, {"x"}}}, {6, 4});

  ASSERT_EQ(blocks.size(), 6U);
  EXPECT_EQ(blocks[0], (Block{{0, 0}, {2, 2}}));
  EXPECT_EQ(blocks[1], (Block{{2, 0}, {2, 2}}));
  EXPECT_EQ(blocks[3], (Block{{0, 2}, {2, 2}}));
}

TEST(Blocks, OfTwoAxesOnOneDimensionHaveTheFirstOutermost) {
  const std::vector<Block> blocks = blocks_of(mesh({{"x", 2}, {"y", 2}}), {{{"y", "x"}}}, {8});

  EXPECT_THAT(
      (std::vector{blocks[0].start[0], blocks[1].start[0], blocks[2].start[0], blocks[3].start[0]}),
      ElementsAre(0, 4, 2, 6));
}

TEST(Blocks, AreHeldByAllDevicesThatDoNotSplitThem) {
  const std::vector<Holders> holders =
      holders_of(blocks_of(mesh({{"x", 2}, {"y", 2}}), {{{"y"}}}, {4}));

  ASSERT_EQ(holders.size(), 2U);
  EXPECT_THAT(holders[0].devices, ElementsAre(0, 2));
  EXPECT_THAT(holders[1].devices, ElementsAre(1, 3));
  EXPECT_EQ(holders_of(blocks_of(mesh({{"x", 4}}), {}, {5})).size(), 1U);
}

TEST(Blocks, RefuseSizesThatDoNotDivide) {
  EXPECT_THAT(
      [] {
        blocks_of(mesh({{"x", 2}}), {{{"x"}}}, {5});
      },
      ThrowsMessage<Error>(HasSubstr("does not divide over 2 devices")));
}

TEST(Blocks, TakenAndPutBackMakeTheArray) {
  const Mesh of = mesh({{"x", 2}, {"y", 3}, {"z", 2}});
  const std::vector<Sharding> shardings = {
      {},
      {{{}, {}, {}}},
      {{{"x"}, {}, {}}},
      {{{}, {"y"}, {}}},
      {{{}, {}, {"z"}}},
      {{{"x"}, {"y"}, {"z"}}},
      {{{"z", "x"}, {}, {}}},
      {{{}, {"x", "y"}, {}}},
      {{{}, {}, {"x", "z"}}},
      {{{"y"}, {}, {"x", "z"}}},
  };
  HostArray whole(Shape{DType::S32, {12, 6, 4}});
  std::iota(whole.as<int32_t>().begin(), whole.as<int32_t>().end(), 1);
  for (size_t i = 0; i < shardings.size(); ++i) {
    SCOPED_TRACE(i);
    HostArray made(whole.shape);
    int64_t elements = 0;
    for (const Holders& part : holders_of(blocks_of(of, shardings[i], whole.shape.dims))) {
      HostArray block(Shape{DType::S32, part.block.size});
      take_block(whole.bytes, whole.shape, part.block, block.bytes);
      EXPECT_EQ(block.as<int32_t>()[0],
                1 + (part.block.start[0] * 6 + part.block.start[1]) * 4 + part.block.start[2]);
      put_block(block.bytes, whole.shape, part.block, made.bytes);
      elements += part.block.elements();
    }
    EXPECT_EQ(elements, 12 * 6 * 4);  // the distinct blocks cover the array once
    EXPECT_EQ(made.bytes, whole.bytes);
  }
}

TEST(Blocks, OfAScalarAreTheScalar) {
  const float value = 3;
  float taken = 0;
  const std::vector<Block> blocks = blocks_of(mesh({{"x", 2}}), {}, {});
  take_block(std::as_bytes(std::span(&value, 1)), {DType::F32, {}}, blocks[1],
             std::as_writable_bytes(std::span(&taken, 1)));
  EXPECT_EQ(taken, 3);
}

TEST(Blocks, ThatAreWholeRowsAreOneRun) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  const auto note = [&](int64_t offset, int64_t count) { runs.emplace_back(offset, count); };

  for_each_run({4, 3, 2}, {{1, 0, 0}, {2, 3, 2}}, note);
  EXPECT_THAT(runs, ElementsAre(std::pair(6, 12)));

  runs.clear();
  for_each_run({2, 4, 2}, {{0, 1, 0}, {2, 2, 2}}, note);
  EXPECT_THAT(runs, ElementsAre(std::pair(2, 4), std::pair(10, 4)));
}

}  // namespace
}  // namespace kinema::mesh
