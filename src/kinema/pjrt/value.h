#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

struct PJRT_NamedValue;

namespace kinema::pjrt {

/// Values of PJRT's named values: client options, plugin attributes, cost figures.
using Value = std::variant<bool, int64_t, float, std::string, std::vector<int64_t>>;
using NamedValues = std::map<std::string, Value>;

/// `4`, `0.9`, `true`, `text` or `[1,2]`, for messages and tables.
std::string to_string(const Value& value);

/// Checks client and topology options whose type is known and returns them as the plugin needs
/// them.
///
/// Plugins may abort the process on a wrongly typed option, so this comes before the plugin sees
/// one. An integer is accepted where a float is expected. Throws an Error that names the option.
NamedValues checked_options(const NamedValues& options);

/// Copies what a plugin returned.
NamedValues read_named_values(const PJRT_NamedValue* values, size_t count);

}  // namespace kinema::pjrt
