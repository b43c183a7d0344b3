#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kinema/flags/flag.h"

namespace kinema::flags {

/// A flag's value as an option of a program.
using Value = std::variant<bool, int64_t, double, std::string>;

/// Who reads a value: the parsers differ in the words that they take.
enum class Reader : uint8_t { LIBTPU_INIT_ARGS, XLA_FLAGS, OPTION };

/// The value in the one form that this room compares: `true`, `ENABLED`, `65536`, `fail`. Nothing
/// when the reader would refuse the text.
std::optional<std::string> canonical(const Flag& flag, std::string_view text, Reader reader);

/// What `flag` takes, for messages: "ENABLED, DISABLED or AUTO", "an integer".
std::string expectation(const Flag& flag);

/// A canonical value as the option that a compiler takes. Flags that are not in the table (null)
/// get the type that their text looks like.
Value to_option(const Flag* flag, const std::string& value);

/// True for `true`, `ENABLED` and whole numbers but zero.
bool is_on(std::string_view canonical_value);

}  // namespace kinema::flags
