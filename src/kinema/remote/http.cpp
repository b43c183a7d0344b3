#include "kinema/remote/http.h"

#include "kinema/core/trimmed.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace kinema::remote {
namespace {

constexpr size_t kMostBody = size_t{64} << 20;

struct CloseEasy {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct CloseUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, CloseUrl>;

/// The state of curl's callbacks.
struct Exchange {
  const Request* request;
  CURL* curl;
  Response response;
  bool begun = false;
  std::exception_ptr error;
  // The time of the last byte in either direction.
  std::chrono::seconds stall;
  curl_off_t moved = 0;
  bool connected = false;
  bool stalled = false;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {
    exchange.response.headers.clear();  // of an interim response
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    exchange.response.headers[name] = trimmed(line.substr(colon + 1));
  }
  return size * count;
}

/// Receives a piece of the body; throws if the body is too long.
void take(Exchange& exchange, std::span<const std::byte> bytes) {
  if (!exchange.begun) {
    exchange.begun = true;
    long status = 0;
    curl_easy_getinfo(exchange.curl, CURLINFO_RESPONSE_CODE, &status);
    exchange.response.status = static_cast<int>(status);
    if (exchange.request->on_begin) {
      exchange.request->on_begin(exchange.response);
    }
  }
  const int status = exchange.response.status;
  if (exchange.request->sink && (status == 200 || status == 206)) {
    exchange.request->sink(bytes);
    return;
  }
  check(exchange.response.body.size() + bytes.size() <= kMostBody,
        "[remote] {} answers with more than {} bytes", exchange.request->url, kMostBody);
  exchange.response.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  try {
    take(exchange, std::as_bytes(std::span(data, size * count)));
  } catch (...) {
    exchange.error = std::current_exception();
    return CURL_WRITEFUNC_ERROR;
  }
  return size * count;
}

/// Cancels a stalled transfer. curl's own limit uses the mean speed of the last seconds, so it
/// detects a stall after a fast start late.
int on_progress(void* user, curl_off_t /*to_come*/, curl_off_t down, curl_off_t /*to_go*/,
                curl_off_t up) {
  auto& exchange = *static_cast<Exchange*>(user);
  const auto now = std::chrono::steady_clock::now();
  if (!exchange.connected) {
    // Connecting has a separate limit.
    curl_off_t connected_us = 0;
    curl_easy_getinfo(exchange.curl, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    exchange.connected = connected_us > 0;
    exchange.last = now;
  }
  if (down + up != exchange.moved) {
    exchange.moved = down + up;
    exchange.last = now;
  }
  exchange.stalled = now - exchange.last >= exchange.stall;
  return exchange.stalled ? 1 : 0;
}

void start_library() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

std::string part(const std::string& url, CURLUPart which) {
  const Url parsed(curl_url());
  char* text = nullptr;
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) {
    return "";
  }
  std::string out(text);
  curl_free(text);
  return out;
}

bool is_loopback(const std::string& url) {
  const std::string host = part(url, CURLUPART_HOST);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

void set_body(CURL* curl, const Request& request) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    return;
  }
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method != "GET" && request.method != "DELETE") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  }
}

/// Sets certificates from the environment, for networks with their own.
void set_certificates(CURL* curl) {
  for (const char* name : {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* path = std::getenv(name); path != nullptr && *path != '\0') {
      curl_easy_setopt(curl, CURLOPT_CAINFO, path);
      return;
    }
  }
}

void set_options(CURL* curl, const Request& request, const Timeouts& timeouts, Exchange& exchange,
                 char* error) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "kinema");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(timeouts.connect_s));
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L * 1024L);
  if (is_loopback(request.url)) {
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  }
  set_certificates(curl);
  set_body(curl, request);
}

bool carries_secret(const std::string& header) {
  constexpr std::string_view kName = "authorization:";
  return header.size() >= kName.size() &&
         std::ranges::equal(kName, header.substr(0, kName.size()), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
         });
}

}  // namespace

std::string Response::header(std::string_view name) const {
  const auto found = headers.find(std::string(name));
  return found == headers.end() ? "" : found->second;
}

Response send(const Request& request, const Timeouts& timeouts) {
  start_library();
  const std::unique_ptr<CURL, CloseEasy> curl(curl_easy_init());
  check(curl != nullptr, "[remote] libcurl cannot start");
  std::unique_ptr<curl_slist, FreeList> headers;
  for (const std::string& line : request.headers) {
    check(line.find_first_of("\r\n") == std::string::npos,
          "[remote] a header for {} has a line break in it", origin_of(request.url));
    headers.reset(curl_slist_append(headers.release(), line.c_str()));
  }
  std::array<char, CURL_ERROR_SIZE> error{};
  Exchange exchange{
      .request = &request, .curl = curl.get(), .stall = std::chrono::seconds(timeouts.stall_s)};
  set_options(curl.get(), request, timeouts, exchange, error.data());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(curl.get());
  if (exchange.error) {
    std::rethrow_exception(exchange.error);
  }
  if (exchange.stalled) {
    throw NetworkError(
        fmt::format("[remote] {} sent nothing for {} s", origin_of(request.url), timeouts.stall_s));
  }
  if (code != CURLE_OK) {
    const std::string why = error[0] != '\0' ? error.data() : curl_easy_strerror(code);
    throw NetworkError(fmt::format("[remote] {}: {}", origin_of(request.url), why));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  exchange.response.status = static_cast<int>(status);
  return std::move(exchange.response);
}

Response send_following(Request request, const Timeouts& timeouts) {
  const std::string first = request.url;
  const std::vector<std::string> headers = request.headers;
  for (int attempt = 1;; ++attempt) {
    request.url = first;
    request.headers = headers;
    try {
      Response response;
      for (int hops = 0; hops <= 5; ++hops) {
        response = send(request, timeouts);
        const std::string location = response.header("location");
        if (response.status < 300 || response.status >= 400 || location.empty()) {
          break;
        }
        request.url = resolved_url(request.url, location);
        check(!first.starts_with("https:") || request.url.starts_with("https:"),
              "[remote] {} redirects to {}, which is not https", origin_of(first),
              origin_of(request.url));
        if (origin_of(request.url) != origin_of(first)) {
          std::erase_if(request.headers, carries_secret);
        }
      }
      if (!is_transient(response.status) || attempt > timeouts.retries) {
        return response;
      }
    } catch (const NetworkError&) {
      if (attempt > timeouts.retries) {
        throw;
      }
    }
    back_off(timeouts, attempt);
  }
}

void back_off(const Timeouts& timeouts, int attempt) {
  const int64_t factor = int64_t{1} << std::min(attempt - 1, 6);
  std::this_thread::sleep_for(std::chrono::milliseconds(timeouts.backoff_ms * factor));
}

bool is_transient(int status) { return status == 408 || status == 429 || status >= 500; }

std::string percent_encoded(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || (keep_slash && c == '/');
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string origin_of(const std::string& url) {
  const std::string scheme = part(url, CURLUPART_SCHEME);
  const std::string host = part(url, CURLUPART_HOST);
  check((scheme == "http" || scheme == "https") && !host.empty(),
        "[remote] `{}` is not a URL of http or https", url.substr(0, 200));
  return fmt::format("{}://{}:{}", scheme, host, part(url, CURLUPART_PORT));
}

std::string resolved_url(const std::string& base, const std::string& location) {
  const Url url(curl_url());
  char* text = nullptr;
  const bool ok = curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) == CURLUE_OK &&
                  curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK &&
                  curl_url_get(url.get(), CURLUPART_URL, &text, 0) == CURLUE_OK;
  check(ok, "[remote] {} redirects to an invalid URL", origin_of(base));
  std::string out(text);
  curl_free(text);
  return out;
}

}  // namespace kinema::remote
