#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kinema {

/// What reading and matching the patterns of one file or key may take together, some two seconds:
/// a file from elsewhere may hold thousands of patterns that are slow on purpose. For several
/// threads.
class PatternBudget {
 private:
  friend class Pattern;
  static constexpr int64_t kCharacters = 10'000;  // of patterns that are compiled
  // Of matches; one for each, and ten for each 10,000 states that its matcher goes through.
  static constexpr int64_t kMatches = 100'000;

  std::atomic<int64_t> characters_ = kCharacters;
  std::atomic<int64_t> matches_ = kMatches;
};

/// A regular expression of ICU's syntax: Perl's, and so nearly all of Python's, of whose named
/// groups `(?P<name>...)` are taken too. Names without operators, in which a dot stands for any
/// character, are compared without a matcher and cost nothing of a budget.
class Pattern {
 public:
  enum class Fits : uint8_t {
    ALL,  // the whole text must match
    END,  // the whole text or its end behind a dot: `attn.to_q` fits `blocks.0.attn.to_q`
  };

  /// Throws an Error with the pattern and what is wrong with it; one of more than 1,000 characters
  /// is not read, nor one that `budget` has no characters for.
  explicit Pattern(std::string_view pattern, Fits fits = Fits::ALL);
  Pattern(std::string_view pattern, Fits fits, PatternBudget& budget);

  /// Throws an Error where the answer is not known after a bounded number of steps: some patterns
  /// would keep a matcher busy for ever.
  bool matches(std::string_view text) const;
  /// The same for one of many matches, which share a budget.
  bool matches(std::string_view text, PatternBudget& budget) const;

 private:
  struct Compiled;
  struct Character {
    char value;
    bool any;
  };

  Pattern(std::string_view pattern, Fits fits, PatternBudget* budget);
  /// True where the pattern is a name: letters, digits, `_`, `-`, `/`, dots and, behind a
  /// backslash, other signs; between `^` and `$`, if they are there.
  bool read_name(std::string_view pattern);
  bool matches_name(std::string_view text) const;
  bool matches(std::string_view text, std::atomic<int64_t>& steps) const;

  std::string pattern_;
  Fits fits_;
  std::vector<Character> name_;  // empty: it has operators, and is compiled
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace kinema
