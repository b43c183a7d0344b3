#include "kinema/environments/nearest.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "kinema/core/edit_distance.h"

namespace kinema::environments {

std::string suggestion(std::string_view name, const std::vector<std::string>& names) {
  const auto nearest = std::ranges::min_element(
      names, {}, [&](const std::string& other) { return edit_distance(name, other); });
  if (nearest != names.end() && is_near(name, *nearest)) {
    return fmt::format("do you mean `{}`?", *nearest);
  }
  return fmt::format("there are: {}", fmt::join(names, ", "));
}

}  // namespace kinema::environments
