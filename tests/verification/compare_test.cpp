#include "kinema/verification/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kinema/io/json.h"

namespace kinema::verification {
namespace {

using ::testing::HasSubstr;

HostArray f32(const std::vector<float>& values) {
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

TEST(Compare, MeasuresTheLargestAndTheMeanSquareDifference) {
  const Row row = compare("case", "x", f32({1, 2, 3, 4}), f32({1, 2, 3, 2}), {.absolute = 3});

  EXPECT_TRUE(row.ok);
  EXPECT_DOUBLE_EQ(row.max_diff, 2.0);
  EXPECT_DOUBLE_EQ(row.rms_diff, 1.0);
  EXPECT_DOUBLE_EQ(row.limit, 3.0);
}

TEST(Compare, ARelativeLimitIsTheElementsOwn) {
  const Row row = compare("case", "x", f32({1000, 1.2F}), f32({1000, 1}), {.relative = 0.1});

  EXPECT_FALSE(row.ok);
  EXPECT_THAT(row.message, HasSubstr("element 1"));
}

TEST(Compare, ALimitOfTheLargestCountsForAll) {
  EXPECT_TRUE(compare("case", "x", f32({1000, 1.2F}), f32({1000, 1}), {.of_largest = 0.1}).ok);
}

TEST(Compare, ExactMeansExact) {
  EXPECT_TRUE(compare("case", "x", f32({1}), f32({1}), {}).ok);
  EXPECT_FALSE(compare("case", "x", f32({1}), f32({std::nextafter(1.0F, 2.0F)}), {}).ok);
}

TEST(Compare, ANaNMisses) {
  const Row row = compare("case", "x", f32({1, NAN}), f32({1, 2}), {.absolute = 1e9});

  EXPECT_FALSE(row.ok);
  EXPECT_TRUE(std::isinf(row.max_diff));
}

TEST(Compare, TheMeanSquareHasALimitOfItsOwn) {
  EXPECT_FALSE(
      compare("case", "x", f32({1, 2}), f32({1.5F, 2.5F}), {.absolute = 1, .rms = 0.1}).ok);
}

TEST(Compare, TheMeanSquareMayBeLimitedByTheExpectedOne) {
  const Limit near{.of_largest = 1, .rms_of_rms = 0.1};
  EXPECT_TRUE(compare("case", "x", f32({100, 209}), f32({100, 200}), near).ok);
  EXPECT_FALSE(compare("case", "x", f32({100, 240}), f32({100, 200}), near).ok);
}

TEST(Compare, WhereTheMeanSquareAloneIsLimitedElementsAreNot) {
  const Limit alone{.rms_of_rms = 0.1};
  const Row near = compare("case", "x", f32({100, 209}), f32({100, 200}), alone);
  EXPECT_TRUE(near.ok);
  EXPECT_NEAR(near.limit, 0.1 * 158.11, 1e-2);  // of sqrt((100^2 + 200^2) / 2)
  EXPECT_FALSE(compare("case", "x", f32({100, 240}), f32({100, 200}), alone).ok);
}

TEST(Compare, IntegersCompareWithFloats) {
  const std::vector<int64_t> whole{999, 937};
  const HostArray expected = HostArray::from<int64_t>(DType::S64, {2}, whole);

  EXPECT_TRUE(compare("case", "t", f32({999, 937}), expected, {}).ok);
}

TEST(Compare, OtherNumbersOfElementsAreAMiss) {
  const Row row = compare("case", "x", f32({1, 2}), f32({1, 2, 3}), {.absolute = 9});

  EXPECT_FALSE(row.ok);
  EXPECT_THAT(row.message, HasSubstr("is f32[2], the reference is f32[3]"));
}

TEST(Report, UnsupportedRowsCountNeitherWay) {
  const Row good{.name = "a", .tensor = "x", .ok = true};
  const Row bad{.name = "b", .tensor = "x"};

  EXPECT_TRUE((Report{{good, unsupported("c")}}.ok()));
  EXPECT_FALSE((Report{{good, bad}}.ok()));
  EXPECT_FALSE((Report{{unsupported("c")}}.ok()));
}

TEST(Report, JsonHasTheAgreedKeys) {
  const Report report{{compare("case", "x", f32({1}), f32({1.5F}), {.absolute = 1})}};

  const io::Json json = io::Json::parse(to_json(report), "report");

  const io::Json& row = json.at("cases").items().at(0);
  EXPECT_EQ(row.members().size(), 7U);
  EXPECT_EQ(row.at("case").as_string(), "case");
  EXPECT_EQ(row.at("tensor").as_string(), "x");
  EXPECT_EQ(row.at("max_diff").as_number(), 0.5);
  EXPECT_EQ(row.at("rms_diff").as_number(), 0.5);
  EXPECT_EQ(row.at("limit").as_number(), 1.0);
  EXPECT_TRUE(row.at("ok").as_bool());
  EXPECT_FALSE(row.at("unsupported").as_bool());
}

TEST(Report, TheTableSaysWhatFailedAndWhy) {
  const std::string table = to_table({{failed("train", "", "io/train.json is not there")}});

  EXPECT_THAT(table, HasSubstr("MISSED"));
  EXPECT_THAT(table, HasSubstr("io/train.json is not there"));
  EXPECT_THAT(table, HasSubstr("0 ok, 1 missed, 0 unsupported"));
}

}  // namespace
}  // namespace kinema::verification
