#include "kinema/world/tcp_hello.h"

#include <gmock/gmock.h>

namespace kinema::world {
namespace {

using testing::ElementsAre;
using testing::EndsWith;

TEST(TcpHello, IsReadAsItWasWritten) {
  const std::string line =
      line_of(Hello{.rank = 3, .size = 8, .address = "tcp://10.0.0.2:41234", .token = "ab12"});
  EXPECT_THAT(line, EndsWith("\n"));
  const std::optional<Hello> hello = parse_hello(line);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->rank, 3);
  EXPECT_EQ(hello->size, 8);
  EXPECT_EQ(hello->address, "tcp://10.0.0.2:41234");
  EXPECT_EQ(hello->token, "ab12");
}

TEST(TcpHello, AnswersAreReadAsTheyWereWritten) {
  const std::optional<Answer> met =
      parse_answer(line_of(Answer{.met = {.secret = "s", .addresses = {"a", "b"}}, .error = {}}));
  ASSERT_TRUE(met);
  EXPECT_EQ(met->error, "");
  EXPECT_EQ(met->met.secret, "s");
  EXPECT_THAT(met->met.addresses, ElementsAre("a", "b"));
  const std::optional<Answer> refused =
      parse_answer(line_of(Answer{.met = {}, .error = "[world] \xff no\n  more"}));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error, "[world] \xEF\xBF\xBD no\n  more");
}

TEST(TcpHello, WhatNoProcessSaysIsNothing) {
  const std::string good = line_of(Hello{.rank = 1, .size = 2, .address = "a", .token = "t"});
  ASSERT_TRUE(parse_hello(good));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"rank\":1", "\"rank\":-1"},
           {"\"rank\":1", "\"rank\":1.5"},
           {"\"rank\":1", "\"rank\":18446744073709551615"},
           {"\"rank\":1", "\"rank\":\"1\""},
           {"\"size\":2", "\"size\":null"},
           {"\"address\":\"a\"", "\"address\":[]"},
           {"\"token\":\"t\"", "\"other\":\"t\""},
           {"\"kinema\":2", "\"kinema\":3"},
           {"{", "["}}) {
    std::string line = good;
    line.replace(line.find(from), from.size(), to);
    EXPECT_FALSE(parse_hello(line)) << line;
  }
  EXPECT_FALSE(parse_hello(""));
  EXPECT_FALSE(parse_hello(std::string(Hello::kMostBytes + 1, ' ')));
  EXPECT_FALSE(parse_answer("{}"));
  EXPECT_FALSE(parse_answer(R"({"kinema":2,"secret":"s"})"));
  EXPECT_FALSE(parse_answer(R"({"kinema":2,"secret":"s","addresses":[1]})"));
  EXPECT_FALSE(parse_answer(std::string(100000, '[')));
}

}  // namespace
}  // namespace kinema::world
