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

/// How long to wait before giving a server up.
struct Patience {
  int64_t connect_s = 10;
  /// A transfer in which no byte arrives for so long has stalled.
  int64_t stall_s = 20;
  /// How often a broken or stalled transfer, or an answer of 429 or 5xx, is tried again.
  int retries = 4;
  /// Before the first retry; doubles each time.
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
  /// Lines without an end, `Name: value`.
  std::vector<std::string> headers;
  std::string body = {};
  /// Takes the answer's body in pieces when its status is 200 or 206; else it lands in
  /// Response::body. Not called for other statuses.
  std::function<void(std::span<const std::byte>)> sink = {};
  /// Called before the first piece, with status and headers.
  std::function<void(const Response&)> on_begin = {};
};

/// Sends one request and follows no redirect. Throws NetworkError when no whole answer came; what
/// had come by then has gone to the sink. What the sink throws comes through.
Response send(const Request& request, const Patience& patience);

/// Sends, follows redirects (at most 5), and tries again as `patience` says. Headers named
/// Authorization go to servers of the first URL's scheme, host and port only; from https nothing is
/// followed to http.
Response send_following(Request request, const Patience& patience);

/// Waits before try number `attempt` (from 1).
void back_off(const Patience& patience, int attempt);

/// True for answers that another try may change: 408, 429 and 5xx.
bool is_transient(int status);

/// Bytes outside of A-Z a-z 0-9 - _ . ~ as %XX; `/` is kept on request.
std::string percent_encoded(std::string_view text, bool keep_slash = false);

/// `https://host:port` of a URL; throws an Error when it is none of http or https.
std::string origin_of(const std::string& url);

/// A URL that a redirect gave, made absolute by the one it came from.
std::string resolved_url(const std::string& base, const std::string& location);

}  // namespace kinema::remote
