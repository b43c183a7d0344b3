#pragma once

#include <string_view>

namespace kinema::text {

/// The text of a member of a JSON object, found without parsing the other members' values; empty if
/// there is none, or if the text is not an object as far as it was read. The value is not
/// validated: parse it.
std::string_view json_member(std::string_view object, std::string_view key);

}  // namespace kinema::text
