#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kinema::networks {

/// A module's name in taps and in checkpoint keys: `block`, `blocks`.
struct TapName {
  std::string_view tap;
  std::string_view key;
};

/// A tap's name with each part, between dots, as in the keys, and its number after a dot. Parts
/// that are not in `names` stay: `blocks.3.attn1` for `block3.attn1`.
std::string key_of_tap(std::string_view name, std::span<const TapName> names);

}  // namespace kinema::networks
