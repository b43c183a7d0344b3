#include "kinema/remote/web_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "remote/test_server.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WebFileTest : public testing::Test {
 protected:
  WebFileTest() {
    limits_ = {.bytes = 1000,
               .seconds = 60,
               .timeouts = {.connect_s = 2, .stall_s = 1, .retries = 1, .backoff_ms = 1}};
  }
  Reply answer(const Received& request) {
    if (request.target.starts_with("/hop")) {
      const int hops = std::stoi(request.target.substr(4));
      const std::string next = hops == 0 ? "/image.png" : "/hop" + std::to_string(hops - 1);
      return {.status = 302, .headers = {"Location: " + next}};
    }
    return reply_;
  }
  /// The message, which has one or two lines.
  std::string refusal(const std::string& path = "/image.png") {
    try {
      const WebFile file(server_.url() + path, limits_);
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_LE(std::ranges::count(text, '\n'), 1) << text;
      EXPECT_THAT(text, HasSubstr(server_.url()));
      return text;
    }
    return "";
  }

  WebLimits limits_;
  Reply reply_{.body = "the bytes of an image"};
  TestServer server_{[this](const Received& request) { return answer(request); }};
};

TEST_F(WebFileTest, BringsAFileThatGoesWithTheObject) {
  fs::path path;
  {
    const WebFile file(server_.url() + "/image.png?key=secret", limits_);
    path = file.path();
    EXPECT_EQ(io::read_text(path), reply_.body);
    EXPECT_EQ(file.name(), server_.url() + "/image.png");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(WebFileTest, FollowsFiveRedirectsAndNoMore) {
  const WebFile file(server_.url() + "/hop4", limits_);
  EXPECT_EQ(io::read_text(file.path()), reply_.body);
  EXPECT_THAT(refusal("/hop5"), HasSubstr("redirects more than 5 times"));
}

TEST_F(WebFileTest, SaysWhatARefusalMeansAndKeepsTheQueryToItself) {
  for (const auto& [status, why] : {std::pair{404, "does not exist (404)"},
                                    {410, "does not exist (410)"},
                                    {401, "is not permitted (401)"},
                                    {403, "is not permitted (403)"},
                                    {418, "answers 418"},
                                    {503, "try again later"}}) {
    reply_ = {.status = status, .body = "no"};
    EXPECT_THAT(refusal("/image.png?key=secret"), AllOf(HasSubstr(why), Not(HasSubstr("secret"))));
  }
  EXPECT_EQ(server_.count("GET", "/image.png"), 7);  // only a 503 is retried
}

TEST_F(WebFileTest, TriesHalfAFileAgainAndThenGivesUp) {
  reply_.cut_after = 5;
  EXPECT_THAT(refusal(), HasSubstr("was not downloaded"));
  EXPECT_EQ(server_.count("GET", "/image.png"), 2);
}

TEST_F(WebFileTest, GivesUpAServerThatStalls) {
  reply_.cut_after = 5;
  reply_.stall = true;
  EXPECT_THAT(refusal(), HasSubstr("sent nothing for 1 s"));
}

TEST_F(WebFileTest, RefusesWhatIsTooLargeOrTooSlow) {
  reply_.body = std::string(1000, 'x');
  EXPECT_EQ(refusal(), "");
  reply_.body += 'x';
  EXPECT_THAT(refusal(), HasSubstr("larger than 1000 bytes"));
  reply_.headers = {"Content-Length: 9223372036854775807"};
  EXPECT_THAT(refusal(), HasSubstr("larger than 1000 bytes"));
  reply_ = {.body = "x"};
  limits_.seconds = 0;
  EXPECT_THAT(refusal(), HasSubstr("was not downloaded within 0 s"));
}

TEST(WebUrl, IsHttpOrHttps) {
  EXPECT_TRUE(is_web_url("http://a/b"));
  EXPECT_TRUE(is_web_url("HTTPS://a"));
  EXPECT_FALSE(is_web_url("file:///a"));
  EXPECT_FALSE(is_web_url("http:/a"));
  EXPECT_FALSE(is_web_url("a.png"));
}

}  // namespace
}  // namespace kinema::remote
