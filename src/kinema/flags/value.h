#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kinema/flags/flag.h"

namespace kinema::flags {

/// A flag's value as a program's option.
using Value = std::variant<bool, int64_t, double, std::string>;

/// Who parses a value: the parsers accept different words.
enum class Reader : uint8_t { LIBTPU_INIT_ARGS, XLA_FLAGS, OPTION };

/// The value in canonical form for comparison: `true`, `ENABLED`, `65536`, `fail`. Empty when the
/// reader would refuse the text.
std::optional<std::string> canonical(const Flag& flag, std::string_view text, Reader reader);

/// The values that `flag` accepts, for messages: "ENABLED, DISABLED or AUTO", "an integer".
std::string expectation(const Flag& flag);

/// A canonical value as the option that a compiler accepts. A flag that is not in the table (null)
/// gets the type that its text looks like.
Value to_option(const Flag* flag, const std::string& value);

/// True for `true`, `ENABLED` and non-zero integers.
bool is_on(std::string_view canonical_value);

}  // namespace kinema::flags
