#pragma once

#include <span>
#include <string_view>

namespace kinema::config {

/// Another trainer's name for a kinema key, or its key for a missing feature, if the edit distance
/// would not find it.
struct OtherName {
  std::string_view other;
  std::string_view key;        ///< kinema's key; empty: none
  std::string_view note = "";  ///< the difference, or the alternative
};

/// Sorted by `other`.
std::span<const OtherName> other_names();

/// The entry with this name; null if there is none.
const OtherName* find_other_name(std::string_view other);

}  // namespace kinema::config
