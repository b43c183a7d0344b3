#include "kinema/text/clean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <cstdint>
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

// Pairs of a prompt and the reference implementation's result.
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

std::string repeated(const std::string& head, const std::string& unit, size_t bytes) {
  std::string out = head;
  while (out.size() < bytes) {
    out += unit;
  }
  return out;
}

// Each of them took quadratic time, or could have; the test's time limit is the bound.
TEST(CleanPrompt, TakesTimeInProportionToTheLength) {
  constexpr size_t kBytes = 200'000;
  for (const char* unit :
       {"&", "<", "a cat ", "\xc3\x83", "\xc3\x83\xc2\xa9 ", "\xc3\xa2\xe2\x82\xac", "&amp;",
        "\x1b[", "\xc2\x80", "\xe2\x80\x9c", "\xf0\x9f\x98\x80", "\xef\xbc\x86", "\xcc\x81\xcc\x96",
        "\xe0\xbd\xb3", "\xe1\x84\x80\xe1\x85\xa1"}) {
    SCOPED_TRACE(unit);
    clean_prompt(repeated("", unit, kBytes));
  }
  EXPECT_EQ(clean_prompt(repeated("&", "amp;", kBytes) + "lt;"), "<");
  EXPECT_EQ(clean_prompt(repeated("&", "#38;", kBytes) + "#x26;gt;"), ">");
  EXPECT_EQ(clean_prompt(repeated("&", "AMP;", kBytes) + "EACUTE;"), "\xc3\x89");
  clean_prompt(repeated("&", "#xff06;", kBytes) + "lt;");
  EXPECT_EQ(clean_prompt(repeated("&#", "0", kBytes) + "65;"), "A");
}

// Unicode's canonical order for mixed classes of marks: ICU's results.
TEST(Compose, GivesEveryOrderOfMarksTheFormOfIcu) {
  const std::u32string letters = U"ae\u00e9\u1100\u1161\u11a8\u0f40";
  const std::u32string marks =
      U"\u0301\u0316\u0323\u0327\u0344\u0f71\u0f72\u0f73\u0f75\u0f81\u0345\u3099";
  uint32_t state = 1;
  const auto below = [&](size_t count) {
    state = state * 1664525U + 1013904223U;
    return (state >> 16) % count;
  };
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  ASSERT_TRUE(U_SUCCESS(status));
  for (int i = 0; i < 5000; ++i) {
    std::u32string text;
    for (size_t left = below(12); left > 0; --left) {
      text += below(3) == 0 ? letters[below(letters.size())] : marks[below(marks.size())];
    }
    std::string expected;
    nfc->normalize(icu::UnicodeString::fromUTF8(encode_utf8(text)), status).toUTF8String(expected);
    EXPECT_EQ(encode_utf8(compose(text)), expected);
  }
}

TEST(FixText, SurrogatesAreJoinedOrReplaced) {
  EXPECT_EQ(fix_text(std::u32string{0xd83d, 0xde00, U' ', 0xde00, 0xd83d}),
            (std::u32string{0x1f600, U' ', 0xfffd, 0xfffd}));
}

TEST(FixText, ReferencesStayFromTheFirstTagOn) {
  EXPECT_EQ(fix_text(U"a &amp; b\n<i> &amp;\n&amp;"), U"a & b\n<i> &amp;\n&amp;");
}

TEST(Mojibake, IsDistinguishedFromCorrectText) {
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
  // U+1F600 as CESU-8, and quotation marks whose last byte was lost, both decoded as Windows-1252.
  EXPECT_EQ(fix_encoding(U"\u00ed\u00a0\u00bd\u00ed\u00b8\u20ac"), U"\U0001f600");
  EXPECT_EQ(fix_encoding(U"\u00e2\u20ac\u0153like this\u00e2\u20ac\ufffd"),
            U"\u201clike this\ufffd");
}

}  // namespace
}  // namespace kinema::text
