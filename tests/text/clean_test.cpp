#include "kinema/text/clean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/text/fix_encoding.h"
#include "kinema/text/fix_text.h"
#include "kinema/text/mojibake.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Pairs of a prompt and what the reference implementation makes of it.
TEST(CleanPrompt, GivesWhatTheReferenceGives) {
  const io::Json cases = io::Json::read(io::golden("text/clean.json"));
  for (const io::Json& each : cases.items()) {
    const io::Json& prompt = each.items()[0];
    SCOPED_TRACE(prompt.dump());
    EXPECT_EQ(clean_prompt(prompt.as_string()), each.items()[1].as_string());
  }
  EXPECT_GT(cases.items().size(), 300U);
}

TEST(CleanPrompt, GivesTheReferenceCasesTexts) {
  const io::Json about = io::Json::read(io::golden("io/tokenizer.json"));
  for (const io::Json& each : about.at("prompts").items()) {
    SCOPED_TRACE(each.at("name").as_string());
    EXPECT_EQ(clean_prompt(each.at("prompt").as_string()), each.at("cleaned").as_string());
  }
}

TEST(CleanPrompt, WhiteSpaceOfAnyKindBecomesOneSpace) {
  EXPECT_EQ(clean_prompt(" \t a \n\n b\xe3\x80\x80\xc2\xa0 c \xe2\x80\xa8"), "a b c");
  EXPECT_EQ(clean_prompt(" \n "), "");
  EXPECT_EQ(clean_prompt(""), "");
}

TEST(CleanPrompt, TextThatIsNotUtf8IsRefused) {
  EXPECT_THAT([] { clean_prompt("a\xc3"); },
              ThrowsMessage<Error>(HasSubstr("the prompt is not UTF-8: byte 1 is 0xc3")));
}

TEST(CleanPrompt, SixtyFourKilobytesOfAnythingTakeLittleTime) {
  std::vector<std::string> prompts{std::string(65536, '&'), std::string(65536, '<')};
  for (const char* part : {"a cat ", "\xc3\x83", "\xc3\x83\xc2\xa9 ", "\xc3\xa2\xe2\x82\xac",
                           "&amp;", "\x1b[", "\xc2\x80", "\xe2\x80\x9c", "\xf0\x9f\x98\x80"}) {
    prompts.emplace_back();
    while (prompts.back().size() < 65536) {
      prompts.back() += part;
    }
  }
  for (const std::string& prompt : prompts) {
    SCOPED_TRACE(prompt.substr(0, 16));
    const auto start = std::chrono::steady_clock::now();
    clean_prompt(prompt);
    // A tenth of a second here; quadratic time would take minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST(FixText, SurrogatesAreJoinedOrReplaced) {
  EXPECT_EQ(fix_text(std::u32string{0xd83d, 0xde00, U' ', 0xde00, 0xd83d}),
            (std::u32string{0x1f600, U' ', 0xfffd, 0xfffd}));
}

TEST(FixText, ReferencesStayFromTheFirstTagOn) {
  EXPECT_EQ(fix_text(U"a &amp; b\n<i> &amp;\n&amp;"), U"a & b\n<i> &amp;\n&amp;");
}

TEST(Mojibake, IsToldFromWhatPeopleWrite) {
  for (const char* text :
       {"caf\xc3\xa9", "\xc3\xa0 la", "10 \xe2\x82\xac", "\xe2\x80\x9cx\xe2\x80\x9d",
        "\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82", "a cat"}) {
    EXPECT_FALSE(looks_garbled(decode_utf8(text))) << text;
  }
  for (const char* text :
       {"caf\xc3\x83\xc2\xa9", "it\xc3\xa2\xe2\x82\xac\xe2\x84\xa2s", "\xc2\x93x"}) {
    EXPECT_TRUE(looks_garbled(decode_utf8(text))) << text;
  }
}

TEST(FixEncoding, ReadsSurrogatePairsAndLostBytes) {
  // U+1F600 as CESU-8, and quotation marks whose last byte was lost, both read as Windows-1252.
  EXPECT_EQ(fix_encoding(U"\u00ed\u00a0\u00bd\u00ed\u00b8\u20ac"), U"\U0001f600");
  EXPECT_EQ(fix_encoding(U"\u00e2\u20ac\u0153like this\u00e2\u20ac\ufffd"),
            U"\u201clike this\ufffd");
}

}  // namespace
}  // namespace kinema::text
