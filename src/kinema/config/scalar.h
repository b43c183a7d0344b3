#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::config {

/// The meaning of a scalar's text. YAML 1.1, YAML 1.2 and Python differ in several forms: every
/// form with one plausible meaning is accepted; `010`, which has two, is not.
std::optional<bool> to_bool(std::string_view text);

/// 12, -1, 1_000, 0x1f, 0o17, 0b11, and the integers 1e3 and 4.0; nothing for `010` or 1.5.
std::optional<int64_t> to_int(std::string_view text);

/// Any finite decimal number: 1e-5, 1.e-5, .5, 1_000.0.
std::optional<double> to_double(std::string_view text);

/// null, Null, NULL, ~ and empty text.
bool is_null(std::string_view text);

/// True for well-formed UTF-8: no stray, missing or overlong bytes, no surrogates.
bool is_utf8(std::string_view text);

/// The names in "a | b | c".
std::vector<std::string_view> words(std::string_view one_of);

}  // namespace kinema::config
