#pragma once

#include <string_view>

#include "kinema/http/message.h"
#include "kinema/io/json.h"

namespace kinema::http {

/// True if brackets and braces outside of strings are nested more than `depth` deep.
bool is_nested_deeper(std::string_view json, int depth);

/// The JSON object in a request's body; an empty body is an empty object. Throws a Refusal of
/// status 400 for anything else, and for more than 32 levels.
io::Json json_body(const Request& request);

}  // namespace kinema::http
