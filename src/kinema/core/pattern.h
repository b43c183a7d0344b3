#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace kinema {

/// A regular expression that a whole text has to match, in what Python's `re` and ECMAScript have
/// in common: `.`, classes, `\d \w \s \b` and their opposites, groups (named ones too), `|`,
/// `* + ? {m,n}`, `^ $`, and looking ahead, `(?=...)`, `(?!...)`. Bytes are characters.
///
/// No pattern takes long, whoever wrote it: matching finds, for each part of the pattern and each
/// position of the text once, where the part may end.
class Pattern {
 public:
  /// Throws an Error naming the place where the pattern is not of this form; of more than 1,000
  /// characters it is not read.
  explicit Pattern(std::string_view pattern);

  /// Throws an Error for a text of more than 255 characters.
  bool matches(std::string_view text) const;

  struct Part;

 private:
  std::shared_ptr<const Part> root_;
};

}  // namespace kinema
