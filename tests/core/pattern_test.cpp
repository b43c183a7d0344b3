#include "kinema/core/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "kinema/core/error.h"

namespace kinema {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Example {
  const char* pattern;
  std::vector<const char*> taken;
  std::vector<const char*> refused;
};

// What Python's re.fullmatch says.
TEST(Pattern, MatchesWholeTextsAsPythonDoes) {
  const Example examples[] = {
      {".*", {"", "blocks/attn1/query"}, {"a\nb"}},
      {"(?!.*attention_op).*", {"blocks/attn1/query"}, {"blocks/attn1/attention_op"}},
      {"blocks/.*", {"blocks/", "blocks/ffn/proj_out"}, {"proj_out", "my/blocks/x"}},
      {"blocks/attn[12]/(query|key)", {"blocks/attn1/key"}, {"blocks/attn3/key", "blocks/attn1/k"}},
      {"a|bc", {"a", "bc"}, {"ac", "b", ""}},
      {"(a|ab)(c|bcd)", {"ac", "abc", "abcd", "abbcd"}, {"abbc", "ad"}},
      {"a{2,3}", {"aa", "aaa"}, {"a", "aaaa"}},
      {"(ab){0,1}c{2}", {"cc", "abcc"}, {"ababcc", "abc"}},
      {"a{2,}?b+?", {"aab", "aaaabb"}, {"ab", "aa"}},
      {"x{,2}", {"", "xx"}, {"xxx"}},
      {R"(blocks/\d+/\w+\.\S)", {"blocks/12/a_1.x"}, {"blocks//a.x", "blocks/1/a. "}},
      {"[^/]+/[a-c\\]-]+", {"x/a]-"}, {"x/y/a", "/a", "x/d"}},
      {"^a$", {"a"}, {"aa"}},
      {R"(.*\bkey\b.*)", {"a/key/b", "key"}, {"add_key", "keys"}},
      {R"(a\B.)", {"ab"}, {"a/"}},
      {"(?=a.c)(?:a)(?P<rest>..)", {"abc"}, {"abd"}},
      {"(a?)*b", {"b", "aab"}, {"a"}},
      {"", {""}, {"a"}},
      {"()|a", {"", "a"}, {"b"}},
  };
  for (const Example& each : examples) {
    SCOPED_TRACE(each.pattern);
    const Pattern pattern(each.pattern);
    for (const char* text : each.taken) {
      EXPECT_TRUE(pattern.matches(text)) << text;
    }
    for (const char* text : each.refused) {
      EXPECT_FALSE(pattern.matches(text)) << text;
    }
  }
}

TEST(Pattern, NamesWhatCannotBeRead) {
  for (const char* text : {"(", "a)", "[a", "*a", "a**", "a{2", "a{3,2}", "(?<=a)b", R"(\1)",
                           R"(\)", "[b-a]", "(?x)a", "a{}"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { Pattern pattern(text); }, ThrowsMessage<Error>(HasSubstr("[pattern]")));
  }
  EXPECT_THROW(Pattern(std::string(1001, 'a')), Error);
  EXPECT_THROW(Pattern(std::string(200, '(') + std::string(200, ')')), Error);
  EXPECT_THROW(Pattern(".*").matches(std::string(256, 'a')), Error);
}

// Each of these keeps a matcher that tries one way after another busy for more than a lifetime.
TEST(Pattern, TakesNoTimeForPatternsThatAreMeantToHang) {
  const auto start = std::chrono::steady_clock::now();
  const std::string as(250, 'a');
  std::string nested = "a";
  for (int i = 0; i < 90; ++i) {
    nested = "(" + nested + ")*";
  }
  for (const std::string& text :
       {std::string("(a*)*b"), std::string("(a|a)*b"), std::string("(a|aa)+b"), nested + "b",
        std::string("(.*a){200}b"), std::string("((a{0,999}){0,999}){999}b"),
        std::string("(?!(a*)*b)(a*)*c"), std::string("(a?){250}(a){250}b")}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(Pattern(text).matches(as));
  }
  EXPECT_TRUE(Pattern("(a*)*").matches(as));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20.0) << "seconds; on a machine that does nothing else it is about one";
}

}  // namespace
}  // namespace kinema
