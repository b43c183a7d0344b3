#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Selects a network's modules by names, ends of names and patterns.
namespace kinema::weights {

/// The `names` that match one of the words, in their order. A word matches an equal name, a name
/// that ends with it after a dot, or, as a regular expression, a whole name. Throws an Error for a
/// word without a match, with the nearest name, or with a hint if it is one of the `others`, which
/// are not linear layers; `key` is the configuration key of the words.
std::vector<std::string> named_by(std::span<const std::string> names,
                                  std::span<const std::string> words, std::string_view key,
                                  std::span<const std::string> others = {});

}  // namespace kinema::weights
