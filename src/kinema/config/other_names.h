#pragma once

#include <span>
#include <string_view>

namespace kinema::config {

/// What other trainers call one of our keys, or have and we do not, where no edit distance would
/// tell.
struct OtherName {
  std::string_view other;
  std::string_view key;        ///< ours; empty: there is none
  std::string_view note = "";  ///< how ours differs, or what is there instead
};

/// In the order of `other`.
std::span<const OtherName> other_names();

/// The entry of that name; null where there is none.
const OtherName* find_other_name(std::string_view other);

}  // namespace kinema::config
