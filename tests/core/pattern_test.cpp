#include "kinema/core/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
      {R"(blocks/\d+/\w+\.\S)", {"blocks/12/a_1.x"}, {"blocks//a.x", "blocks/1/a. "}},
      {"[^/]+/[a-c\\]-]+", {"x/a]-"}, {"x/y/a", "/a", "x/d"}},
      {"^a$", {"a"}, {"aa"}},
      {R"(.*\bkey\b.*)", {"a/key/b", "key"}, {"add_key", "keys"}},
      {"(?=a.c)(?:a)(?P<rest>..)", {"abc"}, {"abd"}},
      {R"(\(?P<x)", {"(P<x", "P<x"}, {"P<y"}},
      {"", {""}, {"a"}},
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
  for (const char* text : {"(", "a)", "[a", "*a", "a{2", "a{3,2}", "[b-a]"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { Pattern pattern(text); },
                ThrowsMessage<Error>(HasSubstr("is no regular expression")));
  }
  EXPECT_THAT([] { Pattern(std::string(1001, 'a')); },
              ThrowsMessage<Error>(HasSubstr("1001 characters")));
}

// Each of these keeps a matcher that tries one way after another busy for more than a lifetime.
TEST(Pattern, EndsOnPatternsThatAreMeantToHang) {
  const std::string as(250, 'a');
  for (const char* text : {"(a|a)*b", "(a|aa)+b", "(.*a){200}b", "(a?){250}(a){250}b"}) {
    SCOPED_TRACE(text);
    const Pattern pattern(text);
    try {
      EXPECT_FALSE(pattern.matches(as));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("takes too long"));
    }
  }
}

}  // namespace
}  // namespace kinema
