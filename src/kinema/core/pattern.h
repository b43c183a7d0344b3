#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace kinema {

/// A regular expression that a whole text must match, of ICU's syntax: Perl's, and so nearly all of
/// Python's, of whose named groups `(?P<name>...)` are taken too.
class Pattern {
 public:
  /// Throws an Error with the pattern and what is wrong with it; one of more than 1,000 characters
  /// is not read.
  explicit Pattern(std::string_view pattern);

  /// Throws an Error where the answer is not known after a bounded number of steps: some patterns
  /// would keep a matcher busy for ever.
  bool matches(std::string_view text) const;

 private:
  struct Compiled;
  std::string pattern_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace kinema
