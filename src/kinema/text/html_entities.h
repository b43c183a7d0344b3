#pragma once

#include <string_view>

namespace kinema::text {

/// The table that html.cpp reads, as text: see html_entities.cpp.
std::string_view named_references();

}  // namespace kinema::text
