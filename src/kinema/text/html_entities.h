#pragma once

#include <string_view>

namespace kinema::text {

/// The table of html.cpp as text: see html_entities.cpp.
std::string_view named_references();

}  // namespace kinema::text
