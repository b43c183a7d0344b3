#include "kinema/serve/api.h"

#include <fmt/format.h>

#include <charconv>

#include "kinema/core/error.h"

namespace kinema::serve {
namespace {

/// OpenAI's word for a kind of error.
std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
    case 421:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

/// A message without the tag of the module that threw it.
std::string without_tag(const std::string& message) {
  const size_t end = message.find("] ");
  const bool has_tag = message.starts_with('[') && end != std::string::npos &&
                       message.find_first_of(" \n") == end + 1;
  return has_tag ? message.substr(end + 2) : message;
}

io::Json or_null(const std::string& text) { return text.empty() ? io::Json() : io::Json(text); }

}  // namespace

void Api::add(Endpoint endpoint, http::Route::Handler handler) {
  router_.add({.method = endpoint.method,
               .pattern = endpoint.pattern,
               .access = endpoint.access,
               .body = endpoint.rule,
               .handler = std::move(handler)});
  endpoints_.push_back(std::move(endpoint));
}

void Api::add_json(Endpoint endpoint, std::function<io::Json(http::Request&)> handler) {
  const int status = endpoint.status;
  add(std::move(endpoint), [status, handler = std::move(handler)](http::Request& request) {
    return http::json_response(status, handler(request));
  });
}

http::Response error_response(const http::Request& request, const http::Refusal& refusal) {
  const std::string message = without_tag(refusal.message);
  if (request.path.starts_with("/sdapi/")) {
    return http::json_response(
        refusal.status,
        io::Json::object(
            {{"error", "HTTPException"}, {"detail", message}, {"body", ""}, {"errors", message}}));
  }
  // OpenAI's clients know 400 only.
  const bool is_openai = request.path.starts_with("/v1/");
  const int status = is_openai && refusal.status == 422 ? 400 : refusal.status;
  return http::json_response(
      status, io::Json::object({{"error", io::Json::object({{"message", message},
                                                            {"type", type_of(status)},
                                                            {"param", or_null(refusal.param)},
                                                            {"code", or_null(refusal.code)}})}}));
}

int64_t integer_argument(const http::Request& request, const std::string& name, int64_t otherwise,
                         int64_t least, int64_t most) {
  const std::string text = request.argument(name);
  if (text.empty()) {
    return otherwise;
  }
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < least || out > most) {
    throw http::Refusal(
        422,
        fmt::format("`{}` is `{}`, expected an integer from {} to {}", name, text, least, most),
        name);
  }
  return out;
}

}  // namespace kinema::serve
