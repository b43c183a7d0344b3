#include "kinema/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/text/sentencepiece.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const fs::path kFolder = io::golden("wan21_t2v/tokenizer");

const Tokenizer& reference() {
  static const Tokenizer tokenizer = Tokenizer::open(kFolder);
  return tokenizer;
}

std::vector<int64_t> ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, 4096).ids;
}

/// A tokenizer with the pieces ab, abc, bc, a, c, and the special ones.
TokenizerParts small_parts() {
  TokenizerParts parts;
  parts.pieces = {{"<pad>", 0.0},
                  {"</s>", 0.0},
                  {"<unk>", 0.0},
                  {"\xe2\x96\x81", -1.0},
                  {"ab", -2.0},
                  {"abc", -8.0},
                  {"bc", -2.0},
                  {"a", -3.0},
                  {"c", -3.0},
                  {"\xe2\x96\x81"
                   "a",
                   -3.5},
                  {"<x>", 0.0}};
  parts.added = {{.text = "<x>", .id = 10}};
  return parts;
}

TEST(Tokenizer, GivesTheReferencesIds) {
  const io::Json about = io::Json::read(io::golden("io/tokenizer.json"));
  for (const io::Json& each : about.at("prompts").items()) {
    SCOPED_TRACE(each.at("name").as_string());
    const Tokens raw = reference().encode(each.at("prompt").as_string(), 512);
    const Tokens cleaned = reference().encode(each.at("cleaned").as_string(), 512);
    EXPECT_EQ(raw.ids, each.at("raw_ids").as_ints());
    EXPECT_EQ(cleaned.ids, each.at("ids").as_ints());
  }
}

/// T5's own folder: only pieces, followed by extra ids, and prompts that are not cleaned.
TEST(Tokenizer, GivesTheReferencesIdsOfT5) {
  const io::Json about = io::Json::read(io::golden("io/t5_tokenizer.json"));
  const Tokenizer tokenizer = Tokenizer::open(io::golden(about.at("tokenizer").as_string()));
  EXPECT_EQ(tokenizer.pad(), about.at("pad_id").as_int());
  EXPECT_EQ(tokenizer.end(), about.at("eos_id").as_int());
  for (const io::Json& each : about.at("prompts").items()) {
    SCOPED_TRACE(each.at("name").as_string());
    const std::vector<int64_t> want = each.at("ids").as_ints();
    EXPECT_EQ(
        tokenizer.encode(each.at("prompt").as_string(), static_cast<int64_t>(want.size())).ids,
        want);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(tokenizer.token(want[i]), each.at("tokens").items()[i].as_string());
    }
  }
}

TEST(Tokenizer, AFolderWithoutSpieceModelReadsItsPiecesFromTokenizerJson) {
  const io::Scratch scratch;
  fs::copy_file(kFolder / "tokenizer.json", scratch / "tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::open(scratch.path());

  EXPECT_EQ(tokenizer.size(), reference().size());
  for (const char* text : {"A red ball rolls", "caf\xc3\xa9 \xef\xac\x81sh", "a <extra_id_0> b"}) {
    EXPECT_EQ(ids(tokenizer, text), ids(reference(), text)) << text;
  }
}

TEST(Tokenizer, AFolderWithSpieceModelAloneCountsExtraIdsDown) {
  const io::Scratch scratch;
  fs::copy_file(kFolder / "spiece.model", scratch / "spiece.model");
  std::ofstream(scratch / "tokenizer_config.json") << R"({"extra_ids": 20})";
  const Tokenizer tokenizer = Tokenizer::open(scratch.path());

  EXPECT_EQ(tokenizer.size(), reference().size());
  EXPECT_EQ(ids(tokenizer, "<extra_id_0> x <extra_id_19>"),
            ids(reference(), "<extra_id_0> x <extra_id_19>"));
}

TEST(Tokenizer, AddedTokensDecoderOfTheConfigIsRead) {
  const io::Scratch scratch;
  fs::copy_file(kFolder / "spiece.model", scratch / "spiece.model");
  std::ofstream(scratch / "tokenizer_config.json")
      << R"({"added_tokens_decoder": {"480": {"content": "<new>", "rstrip": true}},
             "eos_token": {"content": "</s>"}})";
  const Tokenizer tokenizer = Tokenizer::open(scratch.path());

  EXPECT_EQ(tokenizer.size(), 481);
  EXPECT_THAT(ids(tokenizer, "<new>  <new>"), ElementsAre(480, 480, 1));
}

TEST(Tokenizer, AddedTokensMayLeaveIdsOutButNotGoFarBeyond) {
  const io::Scratch scratch;
  fs::copy_file(kFolder / "spiece.model", scratch / "spiece.model");
  const auto add = [&](const std::string& id) {
    std::ofstream(scratch / "tokenizer_config.json")
        << R"({"added_tokens_decoder": {")" << id << R"(": {"content": "<new>"}}})";
  };
  add("490");
  const Tokenizer tokenizer = Tokenizer::open(scratch.path());
  EXPECT_EQ(tokenizer.size(), 491);
  EXPECT_THAT(ids(tokenizer, "<new>"), ElementsAre(490, 1));
  add("99999999");
  EXPECT_THAT([&] { Tokenizer::open(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("`<new>` has id 99999999")));
}

TEST(Tokenizer, TakesThePathOfTheLargestSum) {
  const Tokenizer tokenizer(small_parts());

  // "_abc": _ + ab + c = -6, _a + bc = -5.5, _ + abc = -9.
  EXPECT_THAT(ids(tokenizer, "abc"), ElementsAre(9, 6, 1));
}

TEST(Tokenizer, ARunOfUnknownCharactersIsOneToken) {
  const Tokenizer tokenizer(small_parts());

  EXPECT_THAT(ids(tokenizer, "xyz"), ElementsAre(3, 2, 1));
  EXPECT_THAT(ids(tokenizer, "x cy \xf0\x9f\x98\x80\xe4\xb8\x80"),
              ElementsAre(3, 2, 3, 8, 2, 3, 2, 1));
}

TEST(Tokenizer, WordsAreSplitAtUnicodeSpacesAndMarkedOnce) {
  const Tokenizer tokenizer(small_parts());

  EXPECT_EQ(ids(tokenizer,
                "a\xe3\x80\x80"
                "a\xc2\xa0\n a "),
            ids(tokenizer, "a a a"));
  EXPECT_THAT(ids(tokenizer,
                  "\xe2\x96\x81"
                  "a"),
              ElementsAre(9, 1));
  EXPECT_THAT(ids(tokenizer,
                  "a\xe2\x96\x81\xe2\x96\x81"
                  "a"),
              ElementsAre(9, 3, 9, 1));
}

TEST(Tokenizer, AddedTokensTakeSpacesAlongOrStandAlone) {
  TokenizerParts parts = small_parts();
  parts.added[0].lstrip = true;
  parts.added.push_back({.text = "</s>", .id = 1, .single_word = true});
  const Tokenizer tokenizer(std::move(parts));

  EXPECT_THAT(ids(tokenizer, "a  <x>  a"), ElementsAre(9, 10, 9, 1));
  EXPECT_THAT(ids(tokenizer, "a </s> a"), ElementsAre(9, 1, 9, 1));
  EXPECT_THAT(ids(tokenizer, "a</s>a"), ElementsAre(9, 1, 7, 1));
}

TEST(Tokenizer, TokensBeyondTheLengthAreDroppedBeforeTheEndToken) {
  const Tokenizer tokenizer(small_parts());
  const Tokens tokens = tokenizer.encode("a a a a", 3);

  EXPECT_THAT(tokens.ids, ElementsAre(9, 9, 1));
  EXPECT_EQ(tokens.dropped, 2);
  EXPECT_THAT(tokenizer.encode("a", 1).ids, ElementsAre(1));
  EXPECT_EQ(tokenizer.encode("a a", 3).dropped, 0);
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  for (const char* text : {"a\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80"}) {
    EXPECT_THAT([&] { reference().encode(text, 512); },
                ThrowsMessage<Error>(HasSubstr("the prompt is not UTF-8: byte")));
  }
}

TEST(Tokenizer, ALongPromptTakesLittleTime) {
  std::string text;
  std::mt19937 random(3);
  while (text.size() < (1 << 20)) {
    text += static_cast<char>('a' + random() % 26);
  }
  const auto start = std::chrono::steady_clock::now();
  const Tokens tokens = reference().encode(text, 512);

  EXPECT_EQ(tokens.ids.size(), 512U);
  EXPECT_GT(tokens.dropped, 100000);
  // A mebibyte of one word takes a tenth of a second; quadratic time would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Tokenizer, AVocabularyOfUmt5sSizeIsReadyAtOnce) {
  TokenizerParts parts = small_parts();
  std::mt19937 random(7);
  while (parts.pieces.size() < 256384) {
    std::string text = random() % 2 == 0 ? "" : "\xe2\x96\x81";
    for (size_t i = 1 + random() % 12; i > 0; --i) {
      text += static_cast<char>('a' + random() % 26);
    }
    parts.pieces.push_back({text, -3.0 - random() % 15});
  }
  const auto start = std::chrono::steady_clock::now();
  const Tokenizer tokenizer(std::move(parts));
  EXPECT_GT(ids(tokenizer, "a red ball").size(), 3U);

  // Takes 0.05 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

void expect_refused(const std::string& model, const std::string& why) {
  EXPECT_THAT(
      [&] { parse_sentencepiece(std::as_bytes(std::span(model.data(), model.size())), "a.model"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("a.model"), HasSubstr(why))))
      << why;
}

TEST(SentencePiece, DamagedModelsAreRefused) {
  expect_refused("no protobuf", "is not a sentencepiece model");
  expect_refused("", "holds 0 pieces");
  expect_refused(std::string("\x0a\x08\x0a\x01x\x15\x00\x00\xc0\x7f", 10), "finite score");
  expect_refused(std::string("\x0a\x03\x0a\x01\xff", 5), "must be UTF-8");
  expect_refused(std::string("\x0a\x03\x0a\x01x\x12\x02\x18\x02", 9), "type 2");
  expect_refused(std::string("\x0a\x03\x0a\x01x\x1a\x06\x12\x04\xff\xff\xff\x7f", 13), "trie");
}

TEST(SentencePiece, ATruncatedModelIsRefusedOrHasFewerPieces) {
  const io::MappedFile file = io::MappedFile::open(kFolder / "spiece.model");
  for (size_t size = 1; size < file.bytes().size(); size += 997) {
    try {
      const auto model = parse_sentencepiece(file.bytes().first(size), "cut");
      EXPECT_LE(model.pieces.size(), 480U);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("cut"));
    }
  }
}

TEST(Tokenizer, FoldersThatAreNoneAreRefused) {
  const io::Scratch scratch;
  const auto open = [&] { Tokenizer::open(scratch.path()); };
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("neither spiece.model nor a tokenizer.json")));
  std::ofstream(scratch / "tokenizer.json") << R"({"model": {"type": "BPE"}})";
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("expected `Unigram`")));
  std::ofstream(scratch / "tokenizer.json")
      << R"({"model": {"type": "Unigram", "vocab": [["<pad>", 0.0], ["a", -1]]}})";
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("`</s>`")));
  EXPECT_THAT([] { Tokenizer::open("/nowhere"); }, ThrowsMessage<Error>(HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace kinema::text
