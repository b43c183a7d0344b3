#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kinema {

/// The work that compiling and matching all patterns of one file or key may cost together, about
/// half a second: a file from elsewhere may hold thousands of patterns that are slow on purpose.
/// Safe to use from several threads.
class PatternBudget {
 private:
  friend class Pattern;
  static constexpr int64_t kCharacters = 10'000;  // in all patterns that are compiled
  // One for each match, and ten for each 10,000 states that its matcher goes through.
  static constexpr int64_t kMatches = 25'000;

  std::atomic<int64_t> characters_ = kCharacters;
  std::atomic<int64_t> matches_ = kMatches;
};

/// A regular expression in ICU's syntax: Perl's, which covers nearly all of Python's; named groups
/// may also be written `(?P<name>...)`. A name without operators, where a dot stands for any
/// character, is compared without a matcher and costs no budget.
class Pattern {
 public:
  enum class Fits : uint8_t {
    ALL,  // the whole text must match
    END,  // the whole text, or its end after a dot: `attn.to_q` fits `blocks.0.attn.to_q`
  };

  /// Throws an Error with the pattern and what is wrong with it, also if it has more than 1,000
  /// characters or more than `budget` has left.
  explicit Pattern(std::string_view pattern, Fits fits = Fits::ALL);
  Pattern(std::string_view pattern, Fits fits, PatternBudget& budget);

  /// Throws an Error after a bounded number of steps: some patterns would keep a matcher busy for
  /// ever.
  bool matches(std::string_view text) const;
  /// The same, for one of many matches that share a budget.
  bool matches(std::string_view text, PatternBudget& budget) const;

 private:
  struct Compiled;
  struct Character {
    char value;
    bool any;
  };

  Pattern(std::string_view pattern, Fits fits, PatternBudget* budget);
  /// True where the pattern is a plain name: letters, digits, `_`, `-`, `/`, dots and other
  /// characters escaped by a backslash, optionally between `^` and `$`.
  bool read_name(std::string_view pattern);
  bool matches_name(std::string_view text) const;
  bool matches(std::string_view text, std::atomic<int64_t>& steps) const;

  std::string pattern_;
  Fits fits_;
  std::vector<Character> name_;  // empty: the pattern has operators and is compiled
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace kinema
