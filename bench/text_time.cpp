// Time against length for text that comes from files: captions, prompts, tokenizers, JSON, YAML and
// lists of clips. Each line is a kind of text at its largest size, with the exponent that its times
// at that size and an eighth of it give: 1 is linear, 2 quadratic. Ends with 1 where one is above
// the bound, which leaves room for logarithms and caches.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kinema/command/command.h"
#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/data/metadata.h"
#include "kinema/io/json.h"
#include "kinema/io/yaml.h"
#include "kinema/text/bpe.h"
#include "kinema/text/clean.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/text/tokenizer.h"
#include "kinema/text/unicode.h"

namespace kinema::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kMostExponent = 1.4;
constexpr double kTooShort = 0.02;  // seconds; says nothing of growth
constexpr size_t kFactor = 8;

std::string repeated(const std::string& head, const std::string& unit, size_t bytes,
                     const std::string& tail = "") {
  std::string out = head;
  while (out.size() + tail.size() < bytes) {
    out += unit;
  }
  return out + tail;
}

/// A unit that names its number, so that none appears twice.
std::string numbered(const std::string& head, const std::string& before, const std::string& behind,
                     size_t bytes, const std::string& tail) {
  std::string out = head;
  for (size_t i = 0; out.size() + tail.size() < bytes; ++i) {
    out += fmt::format("{}{}{}{}", i == 0 ? "" : ",", before, i, behind);
  }
  return out + tail;
}

struct Case {
  std::string name;
  std::function<std::string(size_t bytes)> text;
  std::function<void(const std::string&)> read;
};

Case repeating(const std::string& name, const std::string& head, const std::string& unit,
               const std::string& tail, const std::function<void(const std::string&)>& read) {
  return {name, [=](size_t bytes) { return repeated(head, unit, bytes, tail); }, read};
}

void clean(const std::string& text) { text::clean_prompt(text); }

void add_captions(std::vector<Case>& cases) {
  const std::vector<std::pair<std::string, std::string>> units{
      {"words", "a cat walks "},
      {"one word", "a"},
      {"&amp;", "&amp;"},
      {"& alone", "&"},
      {"& and letters", "&a"},
      {"&# and digits", "&#1"},
      {"fullwidth &", "\xef\xbc\x86"},
      {"marks of two classes", "\xcc\x81\xcc\x96"},
      {"Tibetan marks", "\xe0\xbd\xb3"},
      {"Hangul", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"},
      {"misread once", "\xc3\x83\xc2\xa9"},
      {"misread twice", "\xc3\x83\xc6\x92\xc3\x82\xc2\xa9"},
      {"misread and other", "\xc3\x83\xc2\xa9 \xe6\x97\xa5"},
      {"lost bytes", "\xc3\xa2\xe2\x82\xac\xef\xbf\xbd"},
      {"A with a space", "\xc3\x83 "},
      {"C1 controls", "\xc2\x80"},
      {"terminal escapes", "\x1b[1;2"},
      {"quotes", "\xe2\x80\x9c"},
      {"ligatures", "\xef\xac\x83"},
      {"emoji", "\xf0\x9f\x98\x80"},
      {"joined emoji", "\xf0\x9f\x91\xa9\xe2\x80\x8d"},
      {"flags", "\xf0\x9f\x87\xa9"},
      {"lines", "\n"},
      {"<", "<"}};
  for (const auto& [name, unit] : units) {
    cases.push_back(repeating("caption: " + name, "", unit, "", clean));
  }
  cases.push_back(repeating("caption: nested &amp;", "&", "amp;", "lt;", clean));
  cases.push_back(repeating("caption: nested &#38;", "&", "#38;", "lt;", clean));
  cases.push_back(repeating("caption: nested fullwidth &", "&", "#xff06;", "lt;", clean));
  cases.push_back(repeating("caption: &#00..", "&#", "0", "65;", clean));
  cases.push_back(repeating("caption: marks on a letter", "e", "\xcc\x81", "", clean));
}

text::Tokenizer unigram() {
  text::TokenizerParts parts;
  parts.pieces = {{"<pad>", 0}, {"</s>", 0}, {"<unk>", 0}};
  std::string text;
  for (int i = 0; i < 64; ++i) {
    text += 'a';
    parts.pieces.push_back({text, -static_cast<double>(i)});
  }
  for (int i = 0; i < 20'000; ++i) {
    parts.added.push_back({.text = fmt::format("aaaaaaaaaab{}", i), .id = i % 60});
  }
  return text::Tokenizer(std::move(parts));
}

text::ClipTokenizer byte_pairs() {
  text::ClipTokenizerParts parts;
  parts.vocabulary = {"<|end|>", "a", "a</w>"};
  std::string text = "a";
  for (int i = 0; i < 12; ++i) {
    parts.vocabulary.push_back(text + text);
    parts.merges.emplace_back(text, text);
    text += text;
  }
  return text::ClipTokenizer(std::move(parts));
}

void add_tokenizers(std::vector<Case>& cases) {
  const auto t5 = std::make_shared<text::Tokenizer>(unigram());
  const auto clip = std::make_shared<text::ClipTokenizer>(byte_pairs());
  const std::vector<std::pair<std::string, std::string>> units{
      {"one word", "a"},
      {"words", "aa aaa "},
      {"unknown", "\xe6\x97\xa5"},
      {"marks", "\xcc\x81\xcc\x96"},
      {"joined emoji", "\xf0\x9f\x91\xa9\xe2\x80\x8d"},
      {"word marks", "\xe2\x96\x81"},
      {"spaces", " "}};
  for (const auto& [name, unit] : units) {
    cases.push_back(repeating("unigram: " + name, "", unit, "",
                              [t5](const std::string& text) { t5->encode(text, 512); }));
    cases.push_back(repeating("byte pairs: " + name, "", unit, "",
                              [clip](const std::string& text) { clip->encode(text, 77); }));
  }
  cases.push_back({"vocab.json",
                   [](size_t bytes) {
                     std::string out = "{";
                     for (int i = 0; out.size() + 1 < bytes; ++i) {
                       out += fmt::format("{}\"t{}\":{}", i == 0 ? "" : ",", i, i);
                     }
                     return out + "}";
                   },
                   [](const std::string& text) { text::parse_vocabulary(text, "vocab.json"); }});
  cases.push_back(repeating("merges.txt", "", "a b\n", "", [](const std::string& text) {
    text::parse_merges(text, "merges.txt");
  }));
}

/// What is refused took its time too.
template <typename Read>
auto forgiving(const Read& read) {
  return [read](const std::string& text) {
    try {
      read(text);
    } catch (const Error&) {
    }
  };
}

void add_documents(std::vector<Case>& cases) {
  const auto json = forgiving([](const std::string& text) { io::Json::parse(text, "text"); });
  cases.push_back(repeating("JSON: list", "[", "1,", "1]", json));
  cases.push_back(repeating("JSON: one string", "\"", "a", "\"", json));
  cases.push_back(repeating("JSON: escapes", "\"", "\\u00e9", "\"", json));
  cases.push_back(repeating("JSON: one number", "", "9", "", json));
  cases.push_back(repeating("JSON: brackets", "", "[", "", json));
  cases.push_back(
      {"JSON: keys", [](size_t bytes) { return numbered("{", "\"k", "\":1", bytes, "}"); }, json});
  cases.push_back({"JSON: a long key and many values",
                   [](size_t bytes) {
                     return repeated("{\"" + std::string(bytes / 2, 'k') + "\":[", "1,", bytes,
                                     "1]}");
                   },
                   json});
  const auto yaml = forgiving([](const std::string& text) { io::Yaml::parse(text, "text"); });
  const std::vector<std::pair<std::string, std::string>> lines{
      {"items", "- a\n"},    {"one word", "a"},
      {"comments", "# a\n"}, {"words", "a b "},
      {"empty lines", "\n"}, {"flow list", "[a],"},
      {"brackets", "["},     {"questions", "? "},
      {"colons", ": "},      {"dashes", "- "},
      {"quotes", "\"a\" "},  {"anchors", "- &a x\n"},
      {"tabs", "\t"},        {"block", "|\n  a\n"},
      {"stars", "*a "},      {"braces and colons", "{a: "}};
  for (const auto& [name, unit] : lines) {
    cases.push_back(repeating("YAML: " + name, "", unit, "", yaml));
  }
  cases.push_back(repeating("YAML: block scalar", "a: |\n", "  text\n", "", yaml));
  cases.push_back(repeating("YAML: quoted lines", "a: \"", "text\n  ", "\"", yaml));
  cases.push_back({"YAML: keys",
                   [](size_t bytes) {
                     std::string out;
                     for (int i = 0; out.size() < bytes; ++i) {
                       out += fmt::format("k{}: 1\n", i);
                     }
                     return out;
                   },
                   yaml});
}

void add_lists(std::vector<Case>& cases, const fs::path& folder) {
  const auto read_as = [folder](const std::string& name) {
    return forgiving([file = folder / name](const std::string& text) {
      std::ofstream(file, std::ios::binary) << text;
      data::read_metadata(file, "text");
    });
  };
  const auto csv = read_as("metadata.csv");
  cases.push_back(repeating("csv: rows", "file_name,text\n", "a.mp4,\"a, cat\"\n", "", csv));
  cases.push_back(repeating("csv: commas", "file_name,text", ",", "\n", csv));
  cases.push_back(repeating("csv: quotes", "file_name,text\na,\"", "\"\"", "\"\n", csv));
  cases.push_back(repeating("csv: one field", "file_name,text\na,", "b", "\n", csv));
  const auto jsonl = read_as("metadata.jsonl");
  cases.push_back(
      repeating("jsonl: rows", "", "{\"file_name\":\"a.mp4\",\"text\":\"a\"}\n", "", jsonl));
  cases.push_back({"jsonl: one row of many keys",
                   [](size_t bytes) {
                     return numbered("{", "\"k", "\":1", bytes,
                                     ",\"file_name\":\"a\",\"text\":\"b\"}\n");
                   },
                   jsonl});
  cases.push_back(repeating("names in messages", "", "\x1b\xc3\xa9", "",
                            [](const std::string& text) { printable(text); }));
  cases.push_back(repeating("names that are near", "", "ab", "",
                            [](const std::string& text) { edit_distance(text, text); }));
}

/// The shorter of two tries, on a processor: others use the machine too.
double seconds_of(const Case& each, size_t bytes) {
  const std::string text = each.text(bytes);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 2; ++i) {
    const std::clock_t start = std::clock();
    each.read(text);
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

int measure(size_t bytes, const std::string& filter) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("kinema-bench-{}", ::getpid());
  fs::create_directories(folder);
  std::vector<Case> cases;
  add_captions(cases);
  add_tokenizers(cases);
  add_documents(cases);
  add_lists(cases, folder);
  int slow = 0;
  for (const Case& each : cases) {
    if (each.name.find(filter) == std::string::npos) {
      continue;
    }
    // Grows until it takes a time that says something: what is quadratic shows at small sizes.
    size_t size = bytes / 64;
    double before = seconds_of(each, size);
    double after = before;
    while (size < bytes) {
      before = after;
      size *= kFactor;
      after = seconds_of(each, size);
      if (after > 1 && after > kFactor * kFactor / 2.0 * before) {
        break;
      }
    }
    const double exponent =
        before > 0 && after > kTooShort ? std::log(after / before) / std::log(kFactor) : 1;
    const bool is_slow = exponent > kMostExponent;
    slow += is_slow ? 1 : 0;
    fmt::print("{:<40} {:>9} bytes {:>8.3f} s   exponent {:.2f}{}\n", each.name, size, after,
               exponent, is_slow ? "  <-- worse than n log n" : "");
    std::fflush(stdout);
  }
  fs::remove_all(folder);
  return slow == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kinema::bench

int main(int argc, char** argv) {
  kinema::command::Program program("bench_text_time", "",
                                   "Time against length for text that comes from files");
  kinema::command::Command command = program.itself();
  const auto bytes = std::make_shared<int64_t>(int64_t{2} << 20);
  const auto filter = std::make_shared<std::string>();
  command.option("--bytes", *bytes, "the largest size").shows_default();
  command.option("--filter", *filter, "only kinds with this in their name");
  command.run(
      [bytes, filter] { return kinema::bench::measure(static_cast<size_t>(*bytes), *filter); });
  return program.run(argc, argv);
}
