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

// The results of Python's re.fullmatch.
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
                ThrowsMessage<Error>(HasSubstr("is not a regular expression")));
  }
  EXPECT_THAT([] { Pattern(std::string(1001, 'a')); },
              ThrowsMessage<Error>(HasSubstr("1001 characters")));
}

// Each of these keeps a backtracking matcher busy practically for ever.
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

TEST(Pattern, ComparesNamesWithoutAMatcher) {
  const Example examples[] = {
      {"attn1.to_q", {"attn1.to_q", "attn1xto_q"}, {"attn1.to_k", "b.attn1.to_q", "attn1\nto_q"}},
      {R"(attn1\.to_q)", {"attn1.to_q"}, {"attn1xto_q"}},
      {"^blocks/0-a$", {"blocks/0-a"}, {"blocks/0-b", "^blocks/0-a$"}},
      {R"(a\$)", {"a$"}, {"a", "a\\$"}},
      {R"(a\\$)", {"a\\"}, {"a", "a$"}},
  };
  for (const Example& each : examples) {
    SCOPED_TRACE(each.pattern);
    PatternBudget none;
    const Pattern pattern(each.pattern, Pattern::Fits::ALL, none);
    for (const char* text : each.taken) {
      EXPECT_TRUE(pattern.matches(text, none)) << text;
    }
    for (const char* text : each.refused) {
      EXPECT_FALSE(pattern.matches(text, none)) << text;
    }
  }
}

TEST(Pattern, FitsTheEndOfANameBehindADot) {
  for (const char* text : {"attn.to_q", "attn.to_(q|k)", R"((?:attn)\.to_q)"}) {
    SCOPED_TRACE(text);
    const Pattern pattern(text, Pattern::Fits::END);
    EXPECT_TRUE(pattern.matches("attn.to_q"));
    EXPECT_TRUE(pattern.matches("blocks.0.attn.to_q"));
    EXPECT_FALSE(pattern.matches("xattn.to_q"));
    EXPECT_FALSE(pattern.matches("attn.to_q.0"));
  }
  EXPECT_FALSE(Pattern("^attn.to_q", Pattern::Fits::END).matches("blocks.0.attn.to_q"));
  EXPECT_FALSE(Pattern("^attn.to_(q)", Pattern::Fits::END).matches("blocks.0.attn.to_q"));
}

// Each match ends soon, but all of them together would take hours.
TEST(Pattern, SharesABudgetAmongAFilesPatterns) {
  PatternBudget budget;
  std::vector<Pattern> patterns;
  for (int i = 0; i < 200; ++i) {
    patterns.emplace_back("(.*.*.*.*.*)_" + std::to_string(i), Pattern::Fits::END, budget);
  }
  const auto match_all = [&] {
    for (int name = 0; name < 100'000; ++name) {
      for (const Pattern& pattern : patterns) {
        pattern.matches("down_blocks.1.attentions.0.transformer_blocks.0.attn", budget);
      }
    }
  };
  EXPECT_THAT(match_all, ThrowsMessage<Error>(HasSubstr("takes too long")));
}

TEST(Pattern, BoundsTheCharactersOfAFilesPatternsButNotOfItsNames) {
  PatternBudget budget;
  for (int i = 0; i < 4000; ++i) {
    Pattern("blocks." + std::to_string(i) + ".attn1.to_q", Pattern::Fits::END, budget);
  }
  const auto compile_all = [&] {
    for (int i = 0; i < 4000; ++i) {
      Pattern(R"([\p{L}\p{M}]+)" + std::to_string(i), Pattern::Fits::END, budget);
    }
  };
  EXPECT_THAT(compile_all, ThrowsMessage<Error>(HasSubstr("10000 characters together")));
}

}  // namespace
}  // namespace kinema
