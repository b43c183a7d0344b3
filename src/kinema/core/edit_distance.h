#pragma once

#include <string_view>

namespace kinema {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`. Only the first 256
/// bytes of each are compared: the time is the product of both lengths.
int edit_distance(std::string_view a, std::string_view b);

/// Whether `a` may be `b` mistyped: at most one edit for three bytes of the longer name. A
/// suggestion that is farther away only misleads.
bool is_near(std::string_view a, std::string_view b);

}  // namespace kinema
