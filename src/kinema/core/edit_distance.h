#pragma once

#include <string_view>

namespace kinema {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`, of which the first
/// 256 bytes count: names are shorter, and the time is the product of both.
int edit_distance(std::string_view a, std::string_view b);

}  // namespace kinema
