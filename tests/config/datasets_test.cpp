#include "kinema/config/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::config {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<DatasetEntry> read_list(const std::string& json) {
  DataConfig config;
  config.datasets.json = json;
  return read_datasets(config);
}

TEST(Datasets, AreAListWithKeysOfTheirOwn) {
  EXPECT_TRUE(read_list("[]").empty());
  EXPECT_TRUE(read_list("null").empty());
  const auto entries = read_list(
      R"([{"path": "a", "weight": 2}, {"path": "b", "weight": 0.5, "height": 8, "width": 16,
          "buckets": "auto", "caption_extension": "cap", "caption_lines": "any",
          "random_flip": false}])");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].path, "a");
  EXPECT_EQ(entries[0].weight, 2);
  EXPECT_FALSE(entries[0].random_flip.has_value());
  EXPECT_EQ(entries[1].width, 16);
  EXPECT_TRUE(entries[1].buckets->on);
  EXPECT_EQ(entries[1].caption_extension, ".cap");
  EXPECT_EQ(entries[1].caption_any_line, true);
  EXPECT_EQ(entries[1].random_flip, false);
}

TEST(Datasets, ErrorsNameEntryAndKey) {
  const auto expect_error = [](const std::string& json, const std::string& problem) {
    EXPECT_THAT([&] { read_list(json); }, ThrowsMessage<Error>(HasSubstr(problem))) << json;
  };
  expect_error(R"({"path": "a"})", "expected a list");
  expect_error(R"(["a"])", "datasets[0] is the string");
  expect_error(R"([{"path": "a"}, {"paht": "b"}])", "datasets[1] has `paht`");
  expect_error(R"([{"path": "a"}, {"paht": "b"}])", "the nearest is `path`");
  expect_error(R"([{"path": "a", "zzzzzzzz": 1}])", "is not a key of a data set");
  expect_error(R"([{"path": 3}])", "must be a string");
  expect_error(R"([{"path": ""}])", "has no path");
  expect_error(R"([{"path": "a", "weight": 0}])", "expected a number above 0");
  expect_error(R"([{"path": "a", "weight": 1, "repeats": 2}])", "repeats change nothing");
  expect_error(R"([{"path": "a", "weight": 1}, {"path": "b"}])", "1 of 2 entries");
  expect_error(R"([{"path": "a", "height": 8}])", "only one of height and width");
  expect_error(R"([{"path": "a", "repeats": 99999999999}])", "expected 1 to");
  expect_error(R"([{"path": "a", "bucket_step": 0}])", "bucket_step");
  expect_error(R"([{"path": "a", "buckets": "big"}])", "is not a size");
  expect_error(R"([{"path": "a", "caption_lines": "all"}])", "expected joined or any");
  expect_error(R"([{"path": "a", "caption_tag_dropout": 2}])", "expected 0 to 1");
}

}  // namespace
}  // namespace kinema::config
