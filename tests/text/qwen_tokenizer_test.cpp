#include "kinema/text/qwen_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Texts = std::vector<std::string>;

Texts pieces(std::string_view text) {
  Texts out;
  split_qwen(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

/// The expression in ICU's notation, whose \s is not White_Space.
const icu::RegexPattern& expression() {
  static const std::unique_ptr<icu::RegexPattern> made = [] {
    UErrorCode status = U_ZERO_ERROR;
    UParseError where;
    const char16_t* text =
        u"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
        u"| ?[^\\p{White_Space}\\p{L}\\p{N}]+[\\r\\n]*|\\p{White_Space}*[\\r\\n]+"
        u"|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+";
    return std::unique_ptr<icu::RegexPattern>(icu::RegexPattern::compile(text, where, status));
  }();
  return *made;
}

Texts found_by_icu(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString wide =
      icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int>(text.size())));
  const std::unique_ptr<icu::RegexMatcher> matcher(expression().matcher(wide, status));
  Texts out;
  while (matcher->find() != 0) {
    std::string piece;
    matcher->group(status).toUTF8String(piece);
    out.push_back(std::move(piece));
  }
  return out;
}

TEST(QwenTokenizer, CutsTextAsTheExpressionSays) {
  EXPECT_THAT(pieces("it's THEY'RE don'T 'sun'"),
              ElementsAre("it", "'s", " THEY", "'RE", " don", "'T", " '", "sun", "'"));
  EXPECT_THAT(pieces("a1b 23"), ElementsAre("a", "1", "b", " ", "2", "3"));
  EXPECT_THAT(pieces("  a \n\n  b\t."), ElementsAre(" ", " a", " \n\n", " ", " b", "\t", "."));
  EXPECT_THAT(pieces("ok!!\r\n\r\nno  "), ElementsAre("ok", "!!\r\n\r\n", "no", "  "));
}

/// Random texts of characters on which alternatives differ.
TEST(QwenTokenizer, CutsAnyTextAsAnotherEngine) {
  const std::u32string alphabet =
      U"abstTREvemld'\u2019\u017f "
      U".,!?_-(\"\n\r\t\u000b\u0085\u00a0\u2028\u3000019\u00b2\u0967\u2167"
      U"\u00e9\u0301\u4e00\u05d0\u0939\u094d\U0001f600\u200d\u20ac";
  std::mt19937 random(7);  // NOLINT: the same texts in every run
  std::uniform_int_distribution<size_t> pick(0, alphabet.size() - 1);
  std::uniform_int_distribution<size_t> length(0, 24);
  for (int i = 0; i < 50000; ++i) {
    std::u32string text(length(random), U' ');
    for (char32_t& c : text) {
      c = alphabet[pick(random)];
    }
    const std::string utf8 = encode_utf8(text);
    ASSERT_EQ(pieces(utf8), found_by_icu(utf8)) << io::Json(utf8).dump();
  }
}

// Generated lines of several scripts, code, emoji, spaces and added tokens, with the ids of
// `tokenizers`: made by tests/peers/byte_pairs.py, which compares a million of them.
TEST(QwenTokenizer, GivesTheIdsOfTokenizers) {
  const QwenTokenizer tokenizer = QwenTokenizer::open(io::golden("byte_pairs"));
  const io::Json lines = io::Json::read(io::golden("byte_pairs/lines.json"));
  int64_t compared = 0;
  for (const io::Json& line : lines.items()) {
    const std::string& text = line.at("text").as_string();
    EXPECT_EQ(tokenizer.encode(text, 1 << 20).ids, line.at("ids").as_ints()) << text;
    ++compared;
  }
  EXPECT_EQ(compared, 300);
}

/// One token per byte, in GPT-2's characters, then `ab` and the added tokens.
class QwenFolder {
 public:
  QwenFolder() {
    vocabulary_ = io::Json::read(io::golden("zimage/zimage_turbo/tokenizer/vocab.json"));
    for (const auto& file : fs::directory_iterator(io::golden("zimage/zimage_turbo/tokenizer"))) {
      fs::copy_file(file, scratch_ / file.path().filename().string());
    }
  }
  QwenFolder& write(const std::string& name, const std::string& text) {
    std::ofstream(scratch_ / name) << text;
    return *this;
  }
  QwenFolder& remove(const std::string& name) {
    fs::remove(scratch_ / name);
    return *this;
  }
  QwenTokenizer open() const { return QwenTokenizer::open(scratch_.path()); }
  int64_t id(std::string_view token) const { return vocabulary_.at(token).as_int(); }

 private:
  io::Scratch scratch_;
  io::Json vocabulary_;
};

TEST(QwenTokenizer, FindsAddedTokensInTheTextAndComposesTheRest) {
  const QwenFolder folder;
  const QwenTokenizer tokenizer = folder.open();
  const auto texts = [&](std::string_view text) {
    Texts out;
    for (const int64_t id : tokenizer.encode(text, 100).ids) {
      out.push_back(tokenizer.token(id));
    }
    return out;
  };
  EXPECT_THAT(texts("<|im_end|>!<think>"), ElementsAre("<|im_end|>", "!", "<think>"));
  EXPECT_EQ(texts("cafe\u0301"), texts("caf\u00e9"));
  EXPECT_EQ(tokenizer.encode("!", 100).ids, std::vector{folder.id("!")});
}

TEST(QwenTokenizer, CutsAtTheEndAndPutsNothingAround) {
  const QwenTokenizer tokenizer = QwenFolder().open();
  EXPECT_TRUE(tokenizer.encode("", 8).ids.empty());
  const Tokens cut = tokenizer.encode(qwen_chat("12345"), 5);
  EXPECT_EQ(cut.ids.size(), 5U);
  EXPECT_EQ(cut.dropped, std::ssize(tokenizer.encode(qwen_chat("12345"), 100).ids) - 5);
  EXPECT_EQ(qwen_chat("a", false),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST(QwenTokenizer, ReadsEitherFormOfItsFiles) {
  const std::string text = "A cat's 12 balls, \u00e9t\u00e9 <|im_end|>\n";
  const std::vector<int64_t> expected = QwenFolder().open().encode(text, 100).ids;
  EXPECT_EQ(QwenFolder().remove("tokenizer.json").open().encode(text, 100).ids, expected);
  EXPECT_EQ(QwenFolder().remove("vocab.json").remove("merges.txt").open().encode(text, 100).ids,
            expected);
}

TEST(QwenTokenizer, NamesWhatIsMissingInAFolder) {
  EXPECT_THAT([] { QwenFolder().remove("tokenizer.json").remove("merges.txt").open(); },
              ThrowsMessage<Error>(HasSubstr("a Qwen tokenizer has vocab.json and merges.txt")));
  EXPECT_THAT(
      [] { QwenFolder().write("tokenizer.json", R"({"model": {"type": "Unigram"}})").open(); },
      ThrowsMessage<Error>(HasSubstr("expected `BPE`")));
  EXPECT_THAT([] { QwenTokenizer::open("/nowhere"); }, ThrowsMessage<Error>(HasSubstr("folder")));
  EXPECT_THAT([] { QwenFolder().open().encode("\xff", 5); },
              ThrowsMessage<Error>(HasSubstr("not UTF-8")));
}

TEST(QwenTokenizer, RefusesAVocabularyWithoutABytesToken) {
  EXPECT_THAT(
      [] {
        QwenTokenizer({.vocabulary = {"a", "<|endoftext|>"},
                       .merges = {},
                       .added = {{.text = "<|endoftext|>", .id = 1}},
                       .pad = 1});
      },
      ThrowsMessage<Error>(HasSubstr("no token for the byte")));
}

}  // namespace
}  // namespace kinema::text
