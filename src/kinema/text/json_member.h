#pragma once

#include <string_view>

namespace kinema::text {

/// The text of a member of a JSON object, found without reading the other members' values; empty
/// when there is none, or the text is no object as far as it was read. The value itself is not
/// checked: parse it.
std::string_view json_member(std::string_view object, std::string_view key);

}  // namespace kinema::text
