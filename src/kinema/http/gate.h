#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/http/message.h"
#include "kinema/http/router.h"

namespace kinema::http {

struct GateOptions {
  /// Values of `Host` that are this server: `127.0.0.1:7865`. All others are refused, which stops
  /// pages whose name was bound to this address (DNS rebinding).
  std::vector<std::string> hosts;
  /// Other sites whose scripts may ask, exactly: `https://studio.example`. They need the token.
  std::vector<std::string> origins;
  /// Empty: none is needed.
  std::string token;
  /// Letters, digits, `-` and `_`. Cookies are of a host and not of a port: name the port.
  std::string cookie = "kinema";
};

/// Decides from the head of a request whether it is answered: by lists of hosts and origins, by
/// what browsers say of the page that asks (`Sec-Fetch-Site`), and by the token.
///
/// The token is given as `Authorization: Bearer`, as the password of `Authorization: Basic`, by the
/// cookie, or for one path and a time by a signed link. Tokens are compared in constant time.
class Gate {
 public:
  explicit Gate(GateOptions options);

  struct Verdict {
    int status = 200;     // 401, 403 or 421 if it is refused
    std::string message;  // why, and what to do
    bool is_refused() const { return status != 200; }
  };
  Verdict check(const Request& head, Access access) const;

  /// For `GET /?token=...`: the cookie and a redirection to `/`, so that the token does not stay in
  /// the address; empty if there is no token in the query. Status 401 for a wrong one.
  std::optional<Response> exchange(const Request& request) const;

  /// A query for a link to `path` that needs no token until `expires`, in Unix seconds.
  std::string signed_query(std::string_view path, int64_t expires) const;

  /// The fields that let a page of another site read the answer; none for other origins.
  Headers cross_origin(const Request& head) const;

 private:
  bool has_token(const Request& head) const;
  bool has_signature(const Request& head) const;
  /// Hexadecimal HMAC-SHA-256 with the token as the key.
  std::string code_of(std::string_view text) const;

  GateOptions options_;
};

/// 256 random bits, in 43 letters, digits, `-` and `_`.
std::string random_token();
/// `bits` / 5 random letters and digits in lower case, for ids that nobody can guess.
std::string random_id(int bits = 80);

/// The bytes of base64 text, standard or for URLs, with or without padding; empty if it is neither.
std::optional<std::string> base64_decoded(std::string_view text);
std::string base64(std::string_view bytes);

}  // namespace kinema::http
