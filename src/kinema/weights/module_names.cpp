#include "kinema/weights/module_names.h"

#include <algorithm>

#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/core/pattern.h"

namespace kinema::weights {
namespace {

std::string_view end_of(std::string_view name, size_t length) {
  return name.size() < length ? name : name.substr(name.size() - length);
}

bool is_end_of(std::string_view word, std::string_view name) {
  return name.size() > word.size() && name.ends_with(word) &&
         name[name.size() - word.size() - 1] == '.';
}

Pattern pattern_of(std::string_view key, const std::string& word, PatternBudget& budget) {
  try {
    return Pattern(word, Pattern::Fits::ALL, budget);
  } catch (const Error& error) {
    fail("[config] {}: {}", key, error.what());
  }
}

}  // namespace

std::vector<std::string> named_by(std::span<const std::string> names,
                                  std::span<const std::string> words, std::string_view key,
                                  std::span<const std::string> others) {
  std::vector<bool> is_meant(names.size());
  PatternBudget budget;
  for (const std::string& word : words) {
    bool any = false;
    const auto mean = [&](const auto& is_it) {
      for (size_t i = 0; i < names.size(); ++i) {
        if (is_it(names[i])) {
          is_meant[i] = any = true;
        }
      }
    };
    mean([&](const std::string& name) { return name == word || is_end_of(word, name); });
    if (!any) {
      const Pattern pattern = pattern_of(key, word, budget);
      mean([&](const std::string& name) { return pattern.matches(name, budget); });
    }
    if (!any) {
      check(!names.empty(), "[config] {}: there is no module that `{}` could mean", key, word);
      const auto other = std::ranges::find_if(
          others, [&](const std::string& name) { return name == word || is_end_of(word, name); });
      check(other == others.end(),
            "[config] {0}: `{1}` is `{2}`, which is not a linear layer; only linear layers can be "
            "named\n  to select all linear layers in a module, use a pattern for their complete "
            "names, "
            "such as `.*attn2\\..*`",
            key, word, other == others.end() ? "" : *other);
      const std::string& nearest = *std::ranges::min_element(names, {}, [&](const auto& name) {
        return edit_distance(word, end_of(name, word.size()));
      });
      fail("[config] {}: no module of the transformer is named, or ends with, `{}`; {} is `{}`",
           key, word,
           is_near(word, end_of(nearest, word.size())) ? "the nearest" : "an existing one",
           nearest);
    }
  }
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_meant[i]) {
      out.push_back(names[i]);
    }
  }
  return out;
}

}  // namespace kinema::weights
