#include "kinema/world/handshake_messages.h"

#include <gmock/gmock.h>

namespace kinema::world {
namespace {

using testing::ElementsAre;
using testing::EndsWith;

TEST(HandshakeMessages, IsReadAsItWasWritten) {
  const std::string line = to_line(
      HandshakeRequest{.rank = 3, .size = 8, .address = "tcp://10.0.0.2:41234", .token = "ab12"});
  EXPECT_THAT(line, EndsWith("\n"));
  const std::optional<HandshakeRequest> request = parse_request(line);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->rank, 3);
  EXPECT_EQ(request->size, 8);
  EXPECT_EQ(request->address, "tcp://10.0.0.2:41234");
  EXPECT_EQ(request->token, "ab12");
}

TEST(HandshakeMessages, AnswersAreReadAsTheyWereWritten) {
  const std::optional<HandshakeReply> reply = parse_reply(
      to_line(HandshakeReply{.result = {.secret = "s", .addresses = {"a", "b"}}, .error = {}}));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, "");
  EXPECT_EQ(reply->result.secret, "s");
  EXPECT_THAT(reply->result.addresses, ElementsAre("a", "b"));
  const std::optional<HandshakeReply> refused =
      parse_reply(to_line(HandshakeReply{.result = {}, .error = "[world] \xff no\n  more"}));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error, "[world] \xEF\xBF\xBD no\n  more");
}

TEST(HandshakeMessages, InvalidLinesAreIgnored) {
  const std::string good =
      to_line(HandshakeRequest{.rank = 1, .size = 2, .address = "a", .token = "t"});
  ASSERT_TRUE(parse_request(good));
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
    EXPECT_FALSE(parse_request(line)) << line;
  }
  EXPECT_FALSE(parse_request(""));
  EXPECT_FALSE(parse_request(std::string(HandshakeRequest::kMostBytes + 1, ' ')));
  EXPECT_FALSE(parse_reply("{}"));
  EXPECT_FALSE(parse_reply(R"({"kinema":2,"secret":"s"})"));
  EXPECT_FALSE(parse_reply(R"({"kinema":2,"secret":"s","addresses":[1]})"));
  EXPECT_FALSE(parse_reply(std::string(100000, '[')));
}

}  // namespace
}  // namespace kinema::world
