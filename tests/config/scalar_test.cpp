#include "kinema/config/scalar.h"

#include "kinema/core/edit_distance.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>

#include "kinema/core/edit_distance.h"

namespace kinema::config {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

TEST(ToBool, ReadsEveryWordThatYaml11Reads) {
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "on", "ON"}) {
    SCOPED_TRACE(word);
    EXPECT_THAT(to_bool(word), Optional(true));
  }
  for (const char* word : {"false", "False", "no", "NO", "off", "Off"}) {
    SCOPED_TRACE(word);
    EXPECT_THAT(to_bool(word), Optional(false));
  }
  for (const char* word : {"", "1", "0", "y", "n", "truee", "none"}) {
    SCOPED_TRACE(word);
    EXPECT_EQ(to_bool(word), std::nullopt);
  }
}

TEST(ToInt, ReadsBasesSeparatorsAndWholeNumbers) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},
      {"-7", -7},
      {"+7", 7},
      {"1_000", 1000},
      {"0x1F", 31},
      {"0o17", 15},
      {"0b11", 3},
      {"-0x10", -16},
      {"1e3", 1000},
      {"4.0", 4},
      {"1.5e1", 15},
      {"0.0", 0},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<int64_t>::min()},
  };
  for (const auto& [text, value] : cases) {
    SCOPED_TRACE(text);
    EXPECT_THAT(to_int(text), Optional(value));
  }
}

TEST(ToInt, RefusesWhatIsNoIntegerOrHasTwoMeanings) {
  for (const char* text : {"", "010", "-010", "00", "1.5", "ten", "1_", "_1", "1__0", "0x", "--1",
                           "+-1", "1e400", "9223372036854775808", "1 ", "0x1G", "1e30"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(to_int(text), std::nullopt);
  }
}

TEST(ToDouble, ReadsEveryDecimalForm) {
  const std::pair<const char*, double> cases[] = {
      {"1e-5", 1e-5}, {"1.e-5", 1e-5}, {".5", 0.5},  {"5", 5},
      {"+1", 1},      {"-2.5", -2.5},  {"1E3", 1e3}, {"1_000.5", 1000.5},
  };
  for (const auto& [text, value] : cases) {
    SCOPED_TRACE(text);
    EXPECT_THAT(to_double(text), Optional(value));
  }
}

TEST(ToDouble, RefusesWhatIsNotAFiniteNumber) {
  for (const char* text : {"", ".inf", "inf", "-inf", "nan", ".nan", "1e999", "0x1p3", "1,5", "e5",
                           "+-1", "1e", "."}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(to_double(text), std::nullopt);
  }
}

TEST(IsUtf8, DistinguishesTextFromBytes) {
  for (const char* text : {"", "plain", "B\xc3\xa4r", "\xe2\x82\xac", "\xf0\x9f\x8e\xac"}) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(is_utf8(text));
  }
  for (const char* text : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xc3(", "\xf8\x88\x80\x80\x80"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(is_utf8(text));
  }
}

TEST(Words, SplitsAtBarsAndKeepsTheEmptyWord) {
  EXPECT_THAT(words("a | b | c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(words(" | int8"), ElementsAre("", "int8"));
}

TEST(EditDistance, CountsInsertsDeletesReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("seed", "sed"), 1);
  EXPECT_EQ(edit_distance("seed", "sede"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
}

}  // namespace
}  // namespace kinema::config
