#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/remote/network_error.h"

/// HTTP(S) through libcurl.
namespace kinema::remote {

/// Timeouts and retries.
struct Timeouts {
  int64_t connect_s = 10;
  /// Seconds without a byte after which a transfer has stalled.
  int64_t stall_s = 20;
  /// Retries of an interrupted or stalled transfer, or a response of 429 or 5xx.
  int retries = 4;
  /// Before the first retry; doubled each time.
  int64_t backoff_ms = 500;
};

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // at most 64 MiB

  /// The header, or empty.
  std::string header(std::string_view name) const;
};

struct Request {
  std::string method = "GET";
  std::string url;
  /// Header lines without a line break, `Name: value`.
  std::vector<std::string> headers;
  std::string body = {};
  /// Receives the response's body in pieces if its status is 200 or 206; otherwise, the body is in
  /// Response::body.
  std::function<void(std::span<const std::byte>)> sink = {};
  /// Called before the first piece, with status and headers.
  std::function<void(const Response&)> on_begin = {};
};

/// Sends one request without following redirects. Throws NetworkError if the response is
/// incomplete; bytes received before were passed to the sink. Exceptions of the sink are passed on.
Response send(const Request& request, const Timeouts& timeouts);

/// Sends, follows redirects (at most 5), and retries according to `timeouts`. Headers named
/// Authorization are sent only to servers with the first URL's scheme, host and port; redirects
/// from https to http are not followed.
Response send_following(Request request, const Timeouts& timeouts);

/// Waits before retry number `attempt` (from 1).
void back_off(const Timeouts& timeouts, int attempt);

/// True for statuses for which a retry may help: 408, 429 and 5xx.
bool is_transient(int status);

/// Bytes outside of A-Z a-z 0-9 - _ . ~ as %XX; `/` is kept if `keep_slash`.
std::string percent_encoded(std::string_view text, bool keep_slash = false);

/// `https://host:port` of a URL; throws an Error for other schemes.
std::string origin_of(const std::string& url);

/// A redirect's URL, made absolute with the URL that it came from.
std::string resolved_url(const std::string& base, const std::string& location);

}  // namespace kinema::remote
