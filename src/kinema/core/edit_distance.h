#pragma once

#include <string_view>

namespace kinema {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`, of which the first
/// 256 bytes count: names are shorter, and the time is the product of both.
int edit_distance(std::string_view a, std::string_view b);

/// Whether `a` may be `b` mistyped: the edits are a third of the longer one's bytes at most. A
/// name that is farther away is no suggestion, it only misleads.
bool is_near(std::string_view a, std::string_view b);

}  // namespace kinema
