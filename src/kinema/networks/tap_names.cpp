#include "kinema/networks/tap_names.h"

#include <algorithm>

namespace kinema::networks {

std::string key_of_tap(std::string_view name, std::span<const TapName> names) {
  std::string out;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    const std::string_view word = part.substr(0, part.find_last_not_of("0123456789") + 1);
    const std::string_view number = part.substr(word.size());
    const auto known = std::ranges::find(names, word, &TapName::tap);
    out += out.empty() ? "" : ".";
    if (known == names.end()) {
      out += part;
    } else {
      out += known->key;
      out += number.empty() ? "" : ".";
      out += number;
    }
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  return out;
}

}  // namespace kinema::networks
