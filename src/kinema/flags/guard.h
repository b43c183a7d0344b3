#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kinema/flags/effective.h"
#include "kinema/flags/finding.h"

namespace kinema::flags {

/// What an effective value must be for a rule to apply.
enum class Test : uint8_t { ON, OFF, AT_LEAST, AT_MOST };

struct Condition {
  std::string_view flag;
  Test test = Test::ON;
  int64_t bound = 0;
};

/// A combination of effective values that is wrong or worth knowing.
struct Rule {
  std::string_view id;
  Backend backend = Backend::ANY;
  std::string_view chips;  ///< "v4 v5p"; empty: all. An unknown chip matches any list.
  std::string_view since;  ///< first plugin version; empty: all that were tested
  /// All must hold; ordered by which change to propose first.
  std::vector<Condition> when;
  bool deterministic = false;  ///< only if results must not depend on the run or the devices
  Severity severity = Severity::ERROR;
  std::string_view what;
  std::string_view refused_since =
      "";  ///< first plugin version whose compiler refuses the combination
  std::string_view evidence = "";
};

/// Every rule over values. `word_rules` lists the rules over words and names.
std::span<const Rule> rules();

/// A rule that is applied while the flags are parsed.
struct WordRule {
  std::string_view id;
  Severity severity;
  std::string_view what;
};
std::span<const WordRule> word_rules();

/// True when `id` is a rule of either list.
bool is_rule(std::string_view id);

/// The findings of all rules that apply to `effective`.
std::vector<Finding> guard(const Effective& effective);

}  // namespace kinema::flags
