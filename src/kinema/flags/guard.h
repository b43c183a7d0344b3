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

/// A combination of effective values that is wrong, or worth knowing.
struct Rule {
  std::string_view id;
  Backend backend = Backend::ANY;
  std::string_view chips;  ///< "v4 v5p"; empty: all. An unknown chip counts as one of them.
  std::string_view since;  ///< plugin version on; empty: all that were tried
  /// All of them must hold; in the order in which a change is proposed.
  std::vector<Condition> when;
  bool deterministic = false;  ///< only where results must not depend on run or devices
  Severity severity = Severity::ERROR;
  std::string_view what;
  std::string_view refused_since = "";  ///< plugin version from which on the compiler refuses it
  std::string_view evidence = "";
};

/// Every rule over values. Rules over words and names are listed by `word_rules`.
std::span<const Rule> rules();

/// A rule that is applied while a list is read.
struct WordRule {
  std::string_view id;
  Severity severity;
  std::string_view what;
};
std::span<const WordRule> word_rules();

/// True when `id` is one of the above.
bool is_rule(std::string_view id);

/// The rules that apply to `effective`.
std::vector<Finding> guard(const Effective& effective);

}  // namespace kinema::flags
