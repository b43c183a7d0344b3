#pragma once

#include <cstdint>
#include <string>

namespace kinema::data {

/// How captions differ from one use of a clip to the next, as kohya's scripts have it. Each clip
/// has a fixed number of variants of its caption, so that each is encoded once.
struct CaptionRules {
  /// Each line of a caption is a caption, one of which is chosen; else all lines are one caption.
  bool any_line = false;
  /// `{a|b|c}` is one of a, b and c; `{{` and `}}` are braces.
  bool wildcards = false;
  /// The tags, the parts between separators, are shuffled.
  bool shuffle = false;
  /// The fraction of tags that are left out.
  double dropout = 0.0;
  std::string separator = ",";
  /// The first tags that stay: their number or, if it is not empty, all tags before this text,
  /// which itself is removed.
  int64_t keep = 0;
  std::string keep_separator = {};
  int64_t variants = 1;
  uint64_t seed = 0;

  /// True if variants may differ.
  bool varies() const { return any_line || wildcards || shuffle || dropout > 0.0; }
  /// The number of captions of a clip.
  int64_t count() const { return varies() ? variants : 1; }
};

/// A variant of a caption: a pure function of the caption, the rules and the variant's number.
/// Without rules, the caption itself. Tags are then joined by the separator and a blank.
std::string varied_caption(const std::string& caption, const CaptionRules& rules, int64_t variant);

}  // namespace kinema::data
