#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Which of a network's modules a user means by names, ends of names and patterns.
namespace kinema::weights {

/// Of `names` those that one of the words means, in their order. A word means a name that it is,
/// whose end behind a dot it is, or that it matches as a regular expression. Throws an Error for a
/// word that means none, with the name nearest to it, or saying that it is one of the `others`,
/// which are no linear layers; `key` is what the words are of.
std::vector<std::string> named_by(std::span<const std::string> names,
                                  std::span<const std::string> words, std::string_view key,
                                  std::span<const std::string> others = {});

}  // namespace kinema::weights
