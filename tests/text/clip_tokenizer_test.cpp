#include "kinema/text/clip_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Texts = std::vector<std::string>;

ClipTokenizer first() { return ClipTokenizer::open(io::golden("sdxl/tokenizer")); }
ClipTokenizer second() { return ClipTokenizer::open(io::golden("sdxl/tokenizer_2")); }

/// Without the start and end tokens.
Texts texts(const ClipTokenizer& tokenizer, std::string_view prompt) {
  const std::vector<int64_t> ids = tokenizer.encode(prompt, 4096).ids;
  Texts out;
  for (size_t i = 1; i + 1 < ids.size(); ++i) {
    out.push_back(tokenizer.token(ids[i]));
  }
  return out;
}

/// Tokens a b ab bc abc, with their end-of-word forms.
ClipTokenizerParts small_parts() {
  ClipTokenizerParts parts;
  parts.vocabulary = {"a",  "b",      "c",       "a</w>", "b</w>", "c</w>",
                      "ab", "bc</w>", "abc</w>", "aa",    "<|s|>", "<|e|>"};
  parts.merges = {{"a", "b"}, {"b", "c</w>"}, {"ab", "c</w>"}, {"a", "a"}};
  parts.added = {{.text = "<|s|>", .id = 10}, {.text = "<|e|>", .id = 11}};
  parts.start = 10;
  parts.end = parts.pad = parts.unknown = 11;
  return parts;
}

/// A copy of a tokenizer's folder whose small files may be changed.
class Folder {
 public:
  Folder() {
    for (const auto& file : fs::directory_iterator(io::golden("sdxl/tokenizer"))) {
      fs::copy_file(file, scratch_ / file.path().filename().string());
    }
  }
  Folder& write(const std::string& name, const std::string& text) {
    std::ofstream(scratch_ / name) << text;
    return *this;
  }
  Folder& remove(const std::string& name) {
    fs::remove(scratch_ / name);
    return *this;
  }
  const fs::path& path() const { return scratch_.path(); }
  ClipTokenizer open() const { return ClipTokenizer::open(scratch_.path()); }
  void expect_refused(const std::string& file, const std::string& why) const {
    EXPECT_THAT([&] { open(); }, ThrowsMessage<Error>(AllOf(HasSubstr(file), HasSubstr(why))));
  }

 private:
  io::Scratch scratch_;
};

class Reference : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, Reference,
                         ::testing::Values("clip_tokenizer", "clip_tokenizer_pad"));

TEST_P(Reference, IdsAndTokensAreThoseOfTransformers) {
  const io::Json about = io::Json::read(io::golden("io/" + std::string(GetParam()) + ".json"));
  const auto tokenizer = ClipTokenizer::open(io::golden(about.at("tokenizer").as_string()));
  EXPECT_EQ(tokenizer.pad(), about.at("pad_id").as_int());
  EXPECT_EQ(tokenizer.end(), about.at("eos_id").as_int());
  EXPECT_EQ(tokenizer.max_length(), 77);
  for (const io::Json& each : about.at("prompts").items()) {
    SCOPED_TRACE(each.at("name").as_string());
    const std::vector<int64_t> want = each.at("ids").as_ints();
    const Tokens got =
        tokenizer.encode(each.at("prompt").as_string(), static_cast<int64_t>(want.size()));
    EXPECT_EQ(got.ids, want);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(tokenizer.token(got.ids[i]), each.at("tokens").items()[i].as_string());
    }
  }
}

/// The files of a tokenizer's folder as a single file, as transformers 5 saves it.
std::string as_one_file(const fs::path& folder, bool pairs) {
  const std::string vocabulary = io::Json::read(folder / "vocab.json").dump(-1);
  std::ifstream in(folder / "merges.txt");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  io::Json merges = io::Json::array();
  for (const auto& [left, right] : parse_merges(text, "merges.txt")) {
    merges.append(pairs ? io::Json::array({left, right}) : io::Json(left + " " + right));
  }
  return R"({"version": "1.0", "added_tokens": [
    {"id": 608, "content": "<|startoftext|>", "normalized": true, "special": true},
    {"id": 609, "content": "<|endoftext|>", "normalized": false, "special": true}],
    "model": {"type": "BPE", "vocab": )" +
         vocabulary + ", \"merges\": " + merges.dump(-1) + "}}";
}

TEST(ClipTokenizer, TokenizerJsonAloneIsTheSame) {
  const ClipTokenizer apart = first();
  for (const bool pairs : {false, true}) {
    Folder folder;
    folder.write("tokenizer.json", as_one_file(io::golden("sdxl/tokenizer"), pairs))
        .remove("vocab.json")
        .remove("merges.txt")
        .remove("special_tokens_map.json");
    EXPECT_TRUE(ClipTokenizer::is_in(folder.path()));
    const ClipTokenizer one = folder.open();
    EXPECT_EQ(one.size(), apart.size());
    EXPECT_EQ(one.start(), apart.start());
    EXPECT_EQ(one.end(), apart.end());
    EXPECT_EQ(one.pad(), apart.pad());
    EXPECT_EQ(one.max_length(), apart.max_length());
    for (const char* prompt :
         {"a red ball's 12 bb!! <|endoftext|>", "Caf\xc3\xa9  the other thing"}) {
      EXPECT_EQ(one.encode(prompt, 77).ids, apart.encode(prompt, 77).ids) << prompt;
    }
  }
}

TEST(ClipTokenizer, TokenizerJsonThatIsDamagedIsRefused) {
  Folder folder;
  folder.remove("vocab.json").remove("merges.txt");
  folder.expect_refused("vocab.json", "or tokenizer.json");
  const std::string whole = as_one_file(io::golden("sdxl/tokenizer"), true);
  folder.write("tokenizer.json", whole.substr(0, whole.size() / 2))
      .expect_refused("tokenizer.json", "");
  folder.write("tokenizer.json", "{}").expect_refused("tokenizer.json", "no `model`");
  folder.write("tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []}})")
      .expect_refused("tokenizer.json", "expected `BPE`");
  EXPECT_FALSE(ClipTokenizer::is_in(folder.path()));
  folder.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}}})")
      .expect_refused("tokenizer.json", "no `merges`");
  for (const char* merge : {R"("ab")", R"(["a"])", R"(["a", "b", "c"])"}) {
    folder
        .write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [)" +
                                     std::string(merge) + "]}}")
        .expect_refused("tokenizer.json", "two tokens");
  }
  folder.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [3]}})")
      .expect_refused("tokenizer.json", "string");
}

// The results of transformers 5.24 (tokenizers 0.23.3) for the same folder.
TEST(ClipTokenizer, TextIsNormalizedAsInTransformers) {
  const ClipTokenizer tokenizer = first();
  // ASCII separators are not white space, U+0085 and U+00A0 are, U+200B and U+180E are not.
  EXPECT_THAT(texts(tokenizer,
                    "a\x1c"
                    "b a\xc2\x85"
                    "b a\xc2\xa0"
                    "b"),
              ElementsAre("a</w>", "\xc4\x9c</w>", "b</w>", "a</w>", "b</w>", "a</w>", "b</w>"));
  EXPECT_EQ(texts(tokenizer,
                  "a\xe2\x80\x8b"
                  "b")
                .size(),
            5U);
  EXPECT_EQ(texts(tokenizer,
                  "a\xe1\xa0\x8e"
                  "b")
                .size(),
            5U);
  // Lower-cased one by one: the last sigma is not special.
  EXPECT_EQ(texts(tokenizer, "\xce\x91\xce\xa3"), texts(tokenizer, "\xce\xb1\xcf\x83"));
  EXPECT_EQ(texts(tokenizer, "\xc4\xb0"), (Texts{"i</w>", "\xc3\x8c", "\xc4\xa9</w>"}));
  // Composed before it is split, so an accent is part of its letter if there is such a letter.
  EXPECT_EQ(texts(tokenizer, "e\xcc\x81"), texts(tokenizer, "\xc3\xa9"));
  EXPECT_EQ(texts(tokenizer, "x\xcc\x81"), (Texts{"x</w>", "\xc3\x8c", "\xc4\xa3</w>"}));
  EXPECT_TRUE(texts(tokenizer, " \n\t").empty());
}

TEST(ClipTokenizer, PiecesAreContractionsLettersDigitsAndTheRest) {
  const ClipTokenizer tokenizer = first();
  EXPECT_EQ(texts(tokenizer, "'sun 're"), (Texts{"'", "s</w>", "u", "n</w>", "'", "re</w>"}));
  EXPECT_EQ(texts(tokenizer, "it'S"), (Texts{"it</w>", "'", "s</w>"}));
  // An apostrophe after other punctuation belongs to it, and no contraction follows.
  EXPECT_EQ(texts(tokenizer, "a!'s"), (Texts{"a</w>", "!", "'</w>", "s</w>"}));
  EXPECT_EQ(texts(tokenizer, "a_1b2"), (Texts{"a</w>", "_</w>", "1</w>", "b</w>", "2</w>"}));
  EXPECT_EQ(texts(tokenizer, "64"), (Texts{"6</w>", "4</w>"}));
}

TEST(ClipTokenizer, SpecialTokensInAPromptAreThemselves) {
  const ClipTokenizer tokenizer = first();
  EXPECT_EQ(texts(tokenizer, "a<|endoftext|>b"), (Texts{"a</w>", "<|endoftext|>", "b</w>"}));
  EXPECT_EQ(texts(tokenizer, "<|startoftext|>'s"), (Texts{"<|startoftext|>", "'", "s</w>"}));
  EXPECT_EQ(texts(tokenizer, "<|endoftext").front(), "<");
}

TEST(ClipTokenizer, FlagsOfSpecialTokensComeFromTheLastThatNamesThem) {
  const Texts apart{"<", "|</w>", "e", "n", "do", "f", "t", "e", "x", "t</w>", "|", "></w>"};
  // The pad token has no flags, so it is found in the text as written, in lower case.
  EXPECT_EQ(texts(first(), "<|ENDOFTEXT|>"), apart);
  EXPECT_EQ(texts(first(), "<|ENDOFTEXT|><|ENDOFTEXT|>").size(), 2 * apart.size());
  EXPECT_EQ(texts(first(), "<|ENDOFTEXT|>'s").size(), apart.size() + 2);
  // If it is another token, the end token's own flags apply: it is found in the normalised text.
  EXPECT_EQ(texts(second(), "<|ENDOFTEXT|>"), Texts{"<|endoftext|>"});
  EXPECT_EQ(texts(first(), "<|STARTOFTEXT|>"), Texts{"<|startoftext|>"});
  EXPECT_EQ(texts(Folder().remove("special_tokens_map.json").open(), "<|ENDOFTEXT|>"), apart);
  EXPECT_EQ(texts(Folder().remove("special_tokens_map.json").remove("tokenizer_config.json").open(),
                  "<|ENDOFTEXT|>"),
            apart);
}

TEST(ClipTokenizer, ThePadTokenOfTheSecondEncoderIsASpecialToken) {
  EXPECT_EQ(texts(first(), "a!b !!"), (Texts{"a</w>", "!</w>", "b</w>", "!", "!</w>"}));
  EXPECT_EQ(texts(second(), "a!b !!"), (Texts{"a</w>", "!", "b</w>", "!", "!"}));
  EXPECT_EQ(second().pad(), 0);
}

TEST(ClipTokenizer, TheMapOfSpecialTokensCountsBeforeTheConfig) {
  const std::string pad = R"({"pad_token": "!"})";
  EXPECT_EQ(Folder().write("special_tokens_map.json", pad).open().pad(), 0);
  EXPECT_EQ(Folder().write("tokenizer_config.json", pad).open().pad(), first().end());
  EXPECT_EQ(
      Folder().write("tokenizer_config.json", pad).remove("special_tokens_map.json").open().pad(),
      0);
}

TEST(ClipTokenizer, AddedTokensDecoderCountsAlone) {
  const ClipTokenizer tokenizer = Folder()
                                      .write("special_tokens_map.json", R"({"pad_token": "!"})")
                                      .write("tokenizer_config.json", R"({"added_tokens_decoder": {
             "609": {"content": "<|endoftext|>", "normalized": true, "special": true},
             "610": {"content": "<new>", "lstrip": true, "rstrip": true, "single_word": true}},
             "model_max_length": 1000000000000000019884624838656})")
                                      .open();
  EXPECT_EQ(tokenizer.pad(), 609);
  EXPECT_EQ(tokenizer.size(), 611);
  EXPECT_EQ(tokenizer.max_length(), std::nullopt);
  EXPECT_EQ(texts(tokenizer, "a <|ENDOFTEXT|> <NEW>!"),
            (Texts{"a</w>", "<|endoftext|>", "<new>", "!</w>"}));
}

TEST(Bpe, TheFirstOfTheMergesComesFirst) {
  const ClipTokenizer tokenizer(small_parts());
  EXPECT_EQ(texts(tokenizer, "abc"), Texts{"abc</w>"});
  EXPECT_EQ(texts(tokenizer, "bc"), Texts{"bc</w>"});
  EXPECT_EQ(texts(tokenizer, "aabc"), (Texts{"a", "abc</w>"}));
  // The leftmost of equal merges: aa, then a.
  EXPECT_EQ(texts(tokenizer, "aaab"), (Texts{"aa", "a", "b</w>"}));
}

TEST(Bpe, TextWithoutATokenIsUnknown) {
  const ClipTokenizer tokenizer(small_parts());
  EXPECT_EQ(texts(tokenizer, "xa"), (Texts{"<|e|>", "a</w>"}));
  EXPECT_EQ(texts(tokenizer, "\xc3\xa9").size(), 2U);
}

TEST(Bpe, TokensBeyondTheLengthAreDroppedBeforeTheEndToken) {
  const ClipTokenizer tokenizer(small_parts());
  const Tokens tokens = tokenizer.encode("a b c", 4);
  EXPECT_THAT(tokens.ids, ElementsAre(10, 3, 4, 11));
  EXPECT_EQ(tokens.dropped, 1);
  EXPECT_EQ(tokenizer.encode("a b c", 5).dropped, 0);
  EXPECT_THAT(tokenizer.encode("a", 2).ids, ElementsAre(10, 11));
  EXPECT_THAT([&] { tokenizer.encode("a", 1); },
              ThrowsMessage<Error>(HasSubstr("max_length is 1")));
  EXPECT_THAT([&] { tokenizer.encode("a\xff", 77); },
              ThrowsMessage<Error>(HasSubstr("the prompt is not UTF-8: byte 1")));
}

TEST(Bpe, ALongWordTakesLittleTime) {
  const ClipTokenizer tokenizer = first();
  std::string text;
  for (size_t i = 0; i < (1 << 20); ++i) {
    text += static_cast<char>('a' + (i * 7 + i / 13) % 26);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GT(tokenizer.encode(text, 77).dropped, 100000);
  // A mebibyte of one word takes half a second; quadratic time would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Bpe, PartsThatDoNotFitAreRefused) {
  const auto refused = [](const auto& change, const char* why) {
    ClipTokenizerParts parts = small_parts();
    change(parts);
    EXPECT_THAT([&] { const ClipTokenizer made(std::move(parts)); },
                ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused([](auto& parts) { parts.merges.emplace_back("a", "c"); }, "needs `ac`");
  refused([](auto& parts) { parts.merges.emplace_back("x", "c"); }, "needs `xc`");
  refused([](auto& parts) { parts.vocabulary[1] = "a"; }, "has `a` twice, as 0 and 1");
  refused([](auto& parts) { parts.pad = 12; }, "padding");
  refused([](auto& parts) { parts.unknown = -1; }, "unknown token is -1");
}

TEST(ClipTokenizer, DamagedFilesAreRefusedByName) {
  Folder().remove("vocab.json").expect_refused("vocab.json", "holds no");
  Folder().remove("merges.txt").expect_refused("merges.txt", "holds no");
  const auto vocabulary = [](const std::string& text, const std::string& why) {
    Folder().write("vocab.json", text).expect_refused("vocab.json", why);
  };
  vocabulary("[]", "must be an object");
  vocabulary("{}", "holds no token");
  vocabulary(R"({"a": 0.5})", "`a`");
  vocabulary(R"({"a": -1})", "expected an id from 0");
  vocabulary(R"({"a": 1000000})", "expected an id from 0");
  vocabulary(R"({"a": 3, "b": 3})", "as `a` is");
  vocabulary(R"({"a": 0})", "does not have");
  const auto merges = [](const std::string& text, const std::string& why) {
    Folder().write("merges.txt", text).expect_refused("", why);
  };
  merges("#version: 0.2\nr o\na b c\n", "line 3 is not two tokens");
  merges("r\n", "line 1 is not two tokens");
  merges("r \n", "line 1 is not two tokens");
  merges("r \xff\n", "not UTF-8");
  merges("r zzz\n", "needs `rzzz`");
  Folder()
      .write("special_tokens_map.json", R"({"eos_token": 5})")
      .expect_refused("special_tokens_map.json", "`eos_token`");
  Folder()
      .write("special_tokens_map.json", R"({"eos_token": "<none>"})")
      .expect_refused("vocab.json", "`eos_token` is `<none>`");
  Folder()
      .write("tokenizer_config.json",
             R"({"added_tokens_decoder": {"9999999": {"content": "x y"}}})")
      .expect_refused("x y", "has id 9999999");
  Folder()
      .write("tokenizer_config.json", R"({"model_max_length": 1})")
      .expect_refused("tokenizer_config.json", "expected at least 2");
  EXPECT_THAT([] { ClipTokenizer::open("/nowhere"); }, ThrowsMessage<Error>(HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace kinema::text
