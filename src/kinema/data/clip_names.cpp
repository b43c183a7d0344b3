#include "kinema/data/clip_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "kinema/core/trimmed.h"

namespace kinema::data {

bool is_companion(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 16> kEndings = {
      ".txt", ".json", ".jsonl", ".csv",  ".tsv",  ".md",      ".yml",   ".yaml",
      ".py",  ".sh",   ".log",   ".toml", ".html", ".parquet", ".arrow", ".caption"};
  const std::string name = path.filename().string();
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return name == "LICENSE" || name == "README" ||
         std::ranges::find(kEndings, ending) != kEndings.end();
}

std::string split_of(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWords = {{
      {"train", "train"},
      {"training", "train"},
      {"validation", "validation"},
      {"valid", "validation"},
      {"val", "validation"},
      {"dev", "validation"},
      {"test", "test"},
      {"testing", "test"},
      {"eval", "test"},
      {"evaluation", "test"},
  }};
  const std::string word = name.substr(0, name.find_first_of("-._ 0123456789"));
  const auto* found = std::ranges::find(kWords, word, [](const auto& pair) { return pair.first; });
  return found == kWords.end() ? "" : std::string(found->second);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<ClassFolder> class_folder(const std::string& name) {
  constexpr int64_t kMostRepeats = 1000;
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || digits > 9 || name[digits] != '_') {
    return std::nullopt;
  }
  ClassFolder out{.repeats = std::stoll(name.substr(0, digits)),
                  .words = std::string(trimmed(name.substr(digits + 1)))};
  const bool is_number = out.repeats >= 1 && out.repeats <= kMostRepeats;
  return is_number ? std::optional(out) : std::nullopt;
}

std::string masked_stem(const std::string& stem) {
  for (const std::string_view ending : {"-masklabel", "-mask", "_mask"}) {
    if (stem.size() > ending.size() && stem.ends_with(ending)) {
      return stem.substr(0, stem.size() - ending.size());
    }
  }
  return "";
}

}  // namespace kinema::data
