#include "kinema/io/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::io {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Yaml, KeepsScalarsAsTextWithLines) {
  const Yaml root =
      Yaml::parse("rate: 1e-5\nflag: on\nmode: 010\ntext: '5'\nnone: null\nempty:\n", "w.yml");

  EXPECT_EQ(root.find("rate")->text(), "1e-5");
  EXPECT_FALSE(root.find("rate")->quoted());
  EXPECT_EQ(root.find("flag")->text(), "on");
  EXPECT_EQ(root.find("mode")->text(), "010");
  EXPECT_EQ(root.find("mode")->where(), "w.yml:3");
  EXPECT_TRUE(root.find("text")->quoted());
  EXPECT_EQ(root.find("none")->kind(), Yaml::Kind::Null);
  EXPECT_EQ(root.find("empty")->kind(), Yaml::Kind::Null);
  EXPECT_EQ(root.find("absent"), nullptr);
}

TEST(Yaml, ReadsNestedListsInBothStyles) {
  const Yaml root =
      Yaml::parse("rules: [\n  ['batch', ['data', 'fsdp']],\n]\nlist:\n  - a\n  - b: 1\n", "w.yml");

  EXPECT_EQ(root.find("rules")->items()[0].items()[1].items()[1].text(), "fsdp");
  EXPECT_EQ(root.find("list")->items()[1].find("b")->text(), "1");
}

TEST(Yaml, ExpandsAliases) {
  const Yaml root = Yaml::parse("a: &x {k: 1}\nb: *x\n", "w.yml");

  EXPECT_EQ(root.find("b")->find("k")->text(), "1");
}

// A long text with many aliases, and nested lists that each anchor copies once more.
TEST(Yaml, RefusesADocumentThatAliasesOrAnchorsMakeLarge) {
  std::string texts = "a: &a " + std::string(1'000'000, 'x') + "\nb: [*a";
  for (int i = 0; i < 50'000; ++i) {
    texts += ",*a";
  }
  EXPECT_THAT([&] { Yaml::parse(texts + "]\n", "bomb.yml"); },
              ThrowsMessage<Error>(HasSubstr("aliases expanded")));

  std::string lists = "x";
  for (int i = 0; i < 50'000; ++i) {
    lists += ",x";
  }
  for (int i = 0; i < 50; ++i) {
    lists = "&a" + std::to_string(i) + " [" + lists + "]";
  }
  EXPECT_THAT([&] { Yaml::parse(lists, "bomb.yml"); },
              ThrowsMessage<Error>(HasSubstr("anchors of the document")));
}

TEST(Yaml, RefusesADocumentThatAliasesBlowUp) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) {
      text += ", " + before;
    }
    text += "]\n";
  }

  EXPECT_THAT([&] { Yaml::parse(text, "bomb.yml"); },
              ThrowsMessage<Error>(HasSubstr("aliases expanded")));
}

TEST(Yaml, RefusesWhatItCannotMean) {
  for (const char* text :
       {"a: 1\na: 2\n", "a: [1, 2\n", "a: b: c\n", "? [x]\n: 1\n", "a: 1\n---\nb: 2\n",
        "a: &x [*x]\n", "a: *nothing\n", "\ta: 1\n", "a: !!binary aGk=\n", "{null: 1}\n"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { Yaml::parse(text, "c.yml"); }, ThrowsMessage<Error>(HasSubstr("c.yml")));
  }
}

TEST(Yaml, RefusesDeepNesting) {
  EXPECT_THROW(Yaml::parse(std::string(100, '[') + std::string(100, ']'), "deep.yml"), Error);
  EXPECT_THROW(Yaml::parse(std::string(100'000, '['), "deep.yml"), Error);
}

TEST(Yaml, GivesNullForAnEmptyDocument) {
  EXPECT_EQ(Yaml::parse("", "e.yml").kind(), Yaml::Kind::Null);
  EXPECT_EQ(Yaml::parse("# only a comment\n", "e.yml").kind(), Yaml::Kind::Null);
}

TEST(Yaml, NamesABraceThatIsNotClosed) {
  EXPECT_THAT([] { Yaml::parse("prompt: {a: cat\n", "c.yml"); },
              ThrowsMessage<Error>(HasSubstr("a `{` is not closed by `}`")));
  EXPECT_THAT([] { Yaml::parse("prompt: [a cat\n", "c.yml"); },
              ThrowsMessage<Error>(HasSubstr("a `[` is not closed by `]`")));
}

}  // namespace
}  // namespace kinema::io
