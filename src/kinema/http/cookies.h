#pragma once

#include <map>
#include <string>
#include <string_view>

namespace kinema::http {

/// The cookies of a `Cookie` field, `a=1; b=2`; the first of equal names. Malformed ones are left
/// out: they may be those of other programs on this host.
std::map<std::string, std::string> read_cookies(std::string_view field);

/// A `Set-Cookie` field for this server only: not readable by scripts, not sent from other sites,
/// for a year. Throws an Error if name or value contain more than letters, digits, `-` and `_`.
std::string set_cookie(std::string_view name, std::string_view value, bool is_secure);

}  // namespace kinema::http
