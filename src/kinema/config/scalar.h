#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::config {

/// What a scalar's text means. YAML 1.1 and 1.2 and Python disagree on several of these, so every
/// form that people write is read as they mean it, and the one that has two meanings (`010`) is not
/// read at all.
std::optional<bool> to_bool(std::string_view text);

/// 12, -1, 1_000, 0x1f, 0o17, 0b11, and 1e3 or 4.0, which are whole; nothing for `010` or 1.5.
std::optional<int64_t> to_int(std::string_view text);

/// Any finite decimal number: 1e-5, 1.e-5, .5, 1_000.0.
std::optional<double> to_double(std::string_view text);

/// null, Null, NULL, ~ and nothing at all.
bool is_null(std::string_view text);

/// True for well-formed UTF-8: no stray, missing or overlong bytes, no surrogates.
bool is_utf8(std::string_view text);

/// The words of "a | b | c".
std::vector<std::string_view> words(std::string_view one_of);

}  // namespace kinema::config
