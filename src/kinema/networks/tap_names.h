#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kinema::networks {

/// A part of a network as taps call it and as keys do: `block`, `blocks`.
struct TapName {
  std::string_view tap;
  std::string_view key;
};

/// The name with its parts, between dots, as keys call them, and their numbers behind a dot; parts
/// that the family does not list stay: `blocks.3.attn1` of `block3.attn1`.
std::string key_of_tap(std::string_view name, std::span<const TapName> names);

}  // namespace kinema::networks
