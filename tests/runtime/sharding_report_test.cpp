#include "kinema/runtime/sharding_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinema::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

mesh::Mesh mesh() {
  return {{{{"data", 2}, {"fsdp", 2}, {"context", 1}, {"tensor", 2}}}, {0, 1, 2, 3, 4, 5, 6, 7}};
}

TEST(ShardingReport, SaysWhereEachTensorLiesAndWhatADeviceHolds) {
  const std::vector<Port> inputs = {
      {"w", {DType::F32, {8, 100}}, {DType::F32, {4, 50}}, {{{"tensor"}, {"fsdp"}}}},
      {"step", {DType::U32, {}}, {DType::U32, {}}}};

  EXPECT_THAT(tensor_lines(mesh(), inputs,
                           [](const std::string& name) {
                             return name == "w" ? std::vector<std::string>{"heads", "embed"}
                                                : std::vector<std::string>();
                           }),
              ElementsAre("mesh data=2 fsdp=2 context=1 tensor=2 over 8 devices",
                          "  w     f32[8,100]  [heads -> tensor, embed -> fsdp]  800 B of 3.2 kB",
                          "  step  u32[]  []  4 B of 4 B", "  each device holds 804 B of 3.2 kB"));
}

TEST(ShardingReport, NamesTheMeshAxesThatAGroupSpans) {
  const auto between = [](std::vector<int64_t> places) { return axes_between(mesh(), places); };
  EXPECT_EQ(between({0, 1}), "tensor");
  EXPECT_EQ(between({0, 2}), "fsdp");
  EXPECT_EQ(between({1, 5}), "data");
  EXPECT_EQ(between({0, 2, 4, 6}), "data, fsdp");
  EXPECT_EQ(between({}), "");
}

TEST(ShardingReport, AddsUpEqualCollectivesAndPutsTheLargestFirst) {
  const std::vector<pjrt::Collective> found = {
      {.kind = "all-reduce", .shape = "f32[2]", .bytes = 8, .origin = "a", .group = {0, 1}},
      {.kind = "all-gather", .shape = "f32[9]", .bytes = 36, .origin = "b", .group = {0, 4}},
      {.kind = "all-reduce",
       .shape = "f32[2]",
       .bytes = 8,
       .times = 9,
       .origin = "a",
       .group = {0, 1}},
  };

  const std::vector<std::string> lines = collective_lines(mesh(), found);

  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "collectives: 2 kinds, whose results are 116 B on each device");
  EXPECT_THAT(lines[1], HasSubstr("all-reduce            10 x 8 B       over tensor"));
  EXPECT_THAT(lines[2], HasSubstr("all-gather             1 x 36 B      over data"));
  EXPECT_THAT(collective_lines(mesh(), {}), ElementsAre(HasSubstr("collectives: none")));
}

TEST(ShardingReport, WritesBytesInTheUnitThatFits) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1500), "1.5 kB");
  EXPECT_EQ(bytes_text(2'500'000'000), "2.5 GB");
}

}  // namespace
}  // namespace kinema::runtime
