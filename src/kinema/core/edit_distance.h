#pragma once

#include <string_view>

namespace kinema {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

}  // namespace kinema
