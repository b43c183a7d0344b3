// Targets, cookies, ranges, forms and JSON bodies.
#include <gmock/gmock.h>

#include "kinema/core/error.h"
#include "kinema/http/cookies.h"
#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/http/multipart.h"
#include "kinema/http/ranges.h"
#include "kinema/http/target.h"

namespace kinema::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

TEST(Target, IsDecodedSegmentBySegment) {
  const auto target = read_target("/api/jobs/a%2Fb%20c/?q=red+fox%21&&starred&q=second");

  ASSERT_TRUE(target);
  EXPECT_THAT(target->segments, ElementsAre("api", "jobs", "a/b c", ""));
  EXPECT_THAT(target->query, ElementsAre(Pair("q", "red fox!"), Pair("starred", "")));
}

TEST(Target, ResolvesNothing) {
  EXPECT_THAT(read_target("/files/../../etc/passwd")->segments,
              ElementsAre("files", "..", "..", "etc", "passwd"));
  EXPECT_THAT(read_target("//evil.example/")->segments, ElementsAre("", "evil.example", ""));
}

TEST(Target, RefusesWhatIsMalformed) {
  for (const char* text : {"", "*", "api", "http://host/", "/%", "/%2", "/%zz", "/a%00b", "/a%0ab",
                           "/%ff", "/?a=%f", "/?a%00=1", "/?a=%ff"}) {
    EXPECT_FALSE(read_target(text)) << text;
  }
}

TEST(Cookies, AreRead) {
  EXPECT_THAT(read_cookies("a=1; b=\"two\";c=;  a=3; d e=4; f; =5; g=a=b"),
              ElementsAre(Pair("a", "1"), Pair("b", "two"), Pair("c", ""), Pair("g", "a=b")));
  EXPECT_THAT(read_cookies(""), ElementsAre());
  EXPECT_THAT(read_cookies(";;;"), ElementsAre());
}

TEST(Cookies, AreOfThisServerOnly) {
  EXPECT_EQ(set_cookie("kinema_7865", "abc", true),
            "kinema_7865=abc; Max-Age=31536000; Path=/; HttpOnly; SameSite=Strict; Secure");
  EXPECT_THROW(set_cookie("kinema", "a; Domain=evil.example", false), Error);
}

struct RangeCase {
  const char* field;
  int64_t size;
  ByteRange::Kind kind;
  int64_t begin;
  int64_t end;
};

TEST(Range, FollowsTheStandard) {
  using Kind = ByteRange::Kind;
  for (const RangeCase& each :
       std::vector<RangeCase>{{"bytes=0-99", 1000, Kind::PART, 0, 100},
                              {"bytes=900-", 1000, Kind::PART, 900, 1000},
                              {"bytes=-100", 1000, Kind::PART, 900, 1000},
                              {"bytes=-5000", 1000, Kind::PART, 0, 1000},
                              {"bytes=999-99999999999999999999999", 1000, Kind::PART, 999, 1000},
                              {"bytes=1000-", 1000, Kind::IMPOSSIBLE, 0, 0},
                              {"bytes=99999999999999999999999-", 1000, Kind::IMPOSSIBLE, 0, 0},
                              {"bytes=-0", 1000, Kind::IMPOSSIBLE, 0, 0},
                              {"bytes=0-", 0, Kind::IMPOSSIBLE, 0, 0},
                              {"bytes=0-0,5-9", 1000, Kind::WHOLE, 0, 1000},
                              {"bytes=9-5", 1000, Kind::WHOLE, 0, 1000},
                              {"bytes=-", 1000, Kind::WHOLE, 0, 1000},
                              {"bytes=", 1000, Kind::WHOLE, 0, 1000},
                              {"bytes=a-b", 1000, Kind::WHOLE, 0, 1000},
                              {"bytes=--5", 1000, Kind::WHOLE, 0, 1000},
                              {"lines=0-5", 1000, Kind::WHOLE, 0, 1000},
                              {"", 1000, Kind::WHOLE, 0, 1000}}) {
    SCOPED_TRACE(each.field);
    const ByteRange range = read_range(each.field, each.size);
    EXPECT_EQ(range.kind, each.kind);
    EXPECT_EQ(range.begin, each.begin);
    EXPECT_EQ(range.end, each.end);
  }
}

TEST(Multipart, ReadsFieldsAndFiles) {
  const std::string body =
      "preamble\r\n--XX\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na red fox\r\n"
      "--XX  \r\ncontent-disposition: FORM-DATA; filename=\"a\\\"b;.png\"; name=image\r\n"
      "Content-Type: Image/PNG; x=y\r\n\r\n\x89PNG\r\n--X\r\n\r\n--XX\r\n"
      "Content-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n--XX--\r\nepilogue";

  const auto parts = read_multipart("Multipart/Form-Data; charset=utf-8; boundary=\"XX\"", body);

  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name, "prompt");
  EXPECT_EQ(parts[0].content, "a red fox");
  EXPECT_EQ(parts[0].file_name, "");
  EXPECT_EQ(parts[1].name, "image");
  EXPECT_EQ(parts[1].file_name, "a\"b;.png");
  EXPECT_EQ(parts[1].type, "image/png");
  EXPECT_EQ(parts[1].content, "\x89PNG\r\n--X\r\n");
  EXPECT_EQ(parts[2].content, "");
  EXPECT_TRUE(read_multipart("multipart/form-data; boundary=XX", "--XX--").empty());
}

TEST(Multipart, SaysWhatIsWrong) {
  const auto error = [](const std::string& type, const std::string& body) {
    return [=] { read_multipart(type, body); };
  };
  const std::string type = "multipart/form-data; boundary=XX";
  EXPECT_THAT(error("application/json", ""), ThrowsMessage<Error>(HasSubstr("application/json")));
  EXPECT_THAT(error("multipart/form-data", ""), ThrowsMessage<Error>(HasSubstr("boundary")));
  EXPECT_THAT(error("multipart/form-data; boundary=" + std::string(71, 'x'), ""),
              ThrowsMessage<Error>(HasSubstr("70")));
  EXPECT_THAT(error(type, "no"), ThrowsMessage<Error>(HasSubstr("does not contain")));
  EXPECT_THAT(error(type, "--XX\r\nA: b\r\n\r\ntext"), ThrowsMessage<Error>(HasSubstr("ends")));
  EXPECT_THAT(error(type, "--XX\r\nA: b\r\n\r\ntext\r\n--XX--"),
              ThrowsMessage<Error>(HasSubstr("no name")));
  EXPECT_THAT(error(type, "--XX\r\nA: " + std::string(9000, 'b') + "\r\n\r\n\r\n--XX--"),
              ThrowsMessage<Error>(HasSubstr("8192")));
  std::string many;
  for (int i = 0; i < 300; ++i) {
    many += "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n";
  }
  EXPECT_THAT(error(type, many + "--XX--"), ThrowsMessage<Error>(HasSubstr("256 parts")));
}

TEST(JsonBody, IsAnObjectOfBoundedDepth) {
  const auto read = [](std::string text) { return json_body({.body = std::move(text)}); };
  EXPECT_EQ(read(R"({"a":"]]]["})").at("a").as_string(), "]]][");
  EXPECT_TRUE(read("").is_object());
  EXPECT_NO_THROW(read("{\"a\":" + std::string(31, '[') + std::string(31, ']') + "}"));
  for (const std::string& text :
       {std::string("[1]"), std::string("{"), std::string("\xff"), std::string("{\"a\":NaN}"),
        "{\"a\":" + std::string(32, '[') + std::string(32, ']') + "}", std::string(1 << 20, '[')}) {
    try {
      read(text);
      ADD_FAILURE() << text.substr(0, 20);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.status, 400);
    }
  }
}

TEST(Headers, CannotBeSplit) {
  Headers headers{{"Location", "/a\r\nSet-Cookie: b=c"}};
  EXPECT_EQ(headers.get("location"), "/a  Set-Cookie: b=c");
  headers.set("LOCATION", "/b");
  EXPECT_THAT(headers.fields(), ElementsAre(Pair("LOCATION", "/b")));
}

TEST(Attachment, KeepsTheNameWithoutQuotes) {
  EXPECT_EQ(attachment("a \"b\"\r\n\xc3\xa9.png"),
            "attachment; filename=\"a__b_____.png\"; "
            "filename*=UTF-8''a%20%22b%22%0D%0A%C3%A9.png");
}

TEST(MediaType, IsOfAFixedList) {
  EXPECT_EQ(media_type_of("a.PNG"), "image/png");
  EXPECT_EQ(media_type_of("a.svg"), "application/octet-stream");
  EXPECT_EQ(media_type_of("a.html"), "application/octet-stream");
}

}  // namespace
}  // namespace kinema::http
