#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kinema::environments {

/// A remedy for an unknown name: "do you mean `X`?", or all names where none is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& names);

}  // namespace kinema::environments
