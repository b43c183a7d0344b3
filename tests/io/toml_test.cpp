#include "kinema/io/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kinema/core/error.h"

namespace kinema::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Toml, IsReadAsJson) {
  const Json value = parse_toml(R"(
a.b = 1
text = 'C:\fox'
more = """
two
lines"""
[general]
on = true
rate = 1e-3
day = 1979-05-27
sizes = [512, 768]
[[sets]]
name = "x"
[[sets]]
[[sets.parts]]
n = 0x10
)",
                                "x.toml");
  EXPECT_EQ(value.at("a").at("b").as_int(), 1);
  EXPECT_EQ(value.at("text").as_string(), "C:\\fox");
  EXPECT_EQ(value.at("more").as_string(), "two\nlines");
  EXPECT_TRUE(value.at("general").at("on").as_bool());
  EXPECT_EQ(value.at("general").at("rate").as_number(), 1e-3);
  EXPECT_EQ(value.at("general").at("day").as_string(), "1979-05-27");
  EXPECT_EQ(value.at("general").at("sizes").as_ints(), (std::vector<int64_t>{512, 768}));
  EXPECT_EQ(value.at("sets").items().size(), 2U);
  EXPECT_EQ(value.at("sets").items()[1].at("parts").items()[0].at("n").as_int(), 16);
  EXPECT_THAT([&] { value.at("general").at("on").as_int(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("x.toml"), HasSubstr("general.on"))));
}

TEST(Toml, NamesTheLineThatIsNone) {
  EXPECT_THAT([] { parse_toml("a = 1\nb = \n", "x.toml"); },
              ThrowsMessage<Error>(HasSubstr("[toml] x.toml:2")));
  EXPECT_THAT([] { parse_toml("a = 1\na = 2\n", "x.toml"); },
              ThrowsMessage<Error>(HasSubstr("x.toml:2")));
  // Assertions of toml++, and letters that it calls unreachable.
  for (const std::string& text : {std::string("[\0a]\n", 5), std::string("[a.\0b]\n", 7),
                                  std::string("[a]\u0495"), std::string("a = 1\u00e9\n")}) {
    EXPECT_THAT([&] { parse_toml(text, "x.toml"); },
                ThrowsMessage<Error>(HasSubstr("[toml] x.toml")));
  }
  EXPECT_THROW(parse_toml("a = " + std::string(100'000, '['), "x.toml"), Error);
  EXPECT_THROW(parse_toml(std::string((4 << 20) + 1, ' '), "x.toml"), Error);
  EXPECT_TRUE(parse_toml("", "x.toml").members().empty());
}

}  // namespace
}  // namespace kinema::io
