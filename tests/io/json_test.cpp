#include "kinema/io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kinema/core/error.h"

namespace kinema::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Json, KeepsTypesAndTheOrderOfKeys) {
  const Json value = Json::parse(R"({"b": 1, "a": [true, 2.5, null, "x"]})", "t.json");

  EXPECT_EQ(value.members()[0].first, "b");
  EXPECT_EQ(value.at("b").as_int(), 1);
  EXPECT_EQ(value.at("a").items().size(), 4U);
  EXPECT_TRUE(value.at("a").items()[0].as_bool());
  EXPECT_EQ(value.at("a").items()[1].as_number(), 2.5);
  EXPECT_TRUE(value.at("a").items()[2].is_null());
  EXPECT_EQ(value.dump(-1), R"({"b": 1, "a": [true, 2.5, null, "x"]})");
}

// If each value stored its path, the long key would take 200 GB.
TEST(Json, TakesMemoryInProportionToTheTextWhereAKeyIsLong) {
  std::string text = "{\"" + std::string(1'000'000, 'k') + "\": [";
  for (int i = 0; i < 200'000; ++i) {
    text += "1,";
  }
  const Json value = Json::parse(text + "true]}", "long.json");

  const std::vector<Json>& items = value.members()[0].second.items();
  EXPECT_EQ(items.size(), 200'001U);
  EXPECT_THAT([&] { (void)items.back().as_int(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("long.json: `kkk"), HasSubstr("is true"))));
}

TEST(Json, NamesFileAndKeyOfAWrongType) {
  const Json value = Json::parse(R"({"num_layers": "one", "a": {"b": [1, 2.0]}})", "config.json");

  EXPECT_THAT([&] { (void)value.at("num_layers").as_int(); },
              ThrowsMessage<Error>(HasSubstr(
                  "config.json: `num_layers` is the string \"one\" but must be an integer")));
  EXPECT_THAT([&] { (void)value.at("a").at("b").as_ints(); },
              ThrowsMessage<Error>(HasSubstr("config.json: `a.b[1]` is the number 2.0")));
  EXPECT_THAT([&] { (void)value.at("a").at("c"); },
              ThrowsMessage<Error>(HasSubstr("config.json: `a` has no `c`")));
}

TEST(Json, LongListsAreShortInMessages) {
  const auto brief = [](const std::string& text) { return Json::parse(text, "x").brief(); };
  EXPECT_EQ(brief("[1, [2, 3], \"a\"]"), "[1, [2, 3], \"a\"]");
  EXPECT_EQ(brief("[1,2,3,4,5,6,7,8,9]"), "[1, 2, 3, ...: 9 in all]");
  EXPECT_EQ(brief("\"" + std::string(100, 'a') + "\""), "\"" + std::string(59, 'a') + "...");
}

TEST(Json, RefusesNonStrictJson) {
  for (const char* text : {"", "{", "{\"a\": NaN}", "[1,]", "{\"a\": 1, \"a\": 2}", "[1e999]",
                           "// x\n1", "1 2", "\"\xff\"", "{'a': 1}", "[Infinity]"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { Json::parse(text, "c.json"); }, ThrowsMessage<Error>(HasSubstr("c.json")));
  }
}

TEST(Json, RefusesDeepNesting) {
  const std::string deep = std::string(200, '[') + std::string(200, ']');

  EXPECT_THAT([&] { Json::parse(deep, "c.json"); },
              ThrowsMessage<Error>(HasSubstr("more than 100 levels")));
  EXPECT_NO_THROW(Json::parse(std::string(100, '[') + std::string(100, ']'), "c.json"));
}

TEST(Json, WritesNumbersThatReadBackAsTheSameTypeAndValue) {
  const Json value = Json::object({{"integer", 5},
                                   {"number", 5.0},
                                   {"small", 1e-6},
                                   {"third", 1.0 / 3},
                                   {"text", "a \"b\"\n\x01"},
                                   {"nan", std::numeric_limits<double>::quiet_NaN()}});

  const Json back = Json::parse(value.dump(), "back");

  EXPECT_EQ(back.at("integer").kind(), Json::Kind::Integer);
  EXPECT_EQ(back.at("number").kind(), Json::Kind::Number);
  EXPECT_EQ(back.at("small").as_number(), 1e-6);
  EXPECT_EQ(back.at("third").as_number(), 1.0 / 3);
  EXPECT_EQ(back.at("text").as_string(), "a \"b\"\n\x01");
  EXPECT_TRUE(back.at("nan").is_null());
  EXPECT_EQ(Json::parse(back.dump(), "again").dump(), back.dump());
}

TEST(Json, RefusesIntegersBeyond64BitsAsIntegers) {
  const Json value = Json::parse("[9223372036854775807, 9223372036854775808]", "t");

  EXPECT_EQ(value.items()[0].as_int(), std::numeric_limits<int64_t>::max());
  EXPECT_THROW((void)value.items()[1].as_int(), Error);
}

}  // namespace
}  // namespace kinema::io
