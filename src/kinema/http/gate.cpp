#include "kinema/http/gate.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "kinema/core/error.h"
#include "kinema/http/cookies.h"

namespace kinema::http {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool is_listed(const std::vector<std::string>& list, std::string_view text) {
  return std::ranges::any_of(list,
                             [&](const std::string& one) { return equal_without_case(one, text); });
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The rest of `Authorization: SCHEME rest`.
std::optional<std::string_view> credentials(std::string_view field, std::string_view scheme) {
  if (field.size() <= scheme.size() || field[scheme.size()] != ' ' ||
      !equal_without_case(field.substr(0, scheme.size()), scheme)) {
    return std::nullopt;
  }
  return field.substr(scheme.size() + 1);
}

std::string random_bytes(size_t size) {
  std::string out(size, '\0');
  check(RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(size)) == 1,
        "[http] the system gives no random numbers");
  return out;
}

/// What a browser says of who asks: a page of another site, other than by following a link.
bool is_asked_by_other_site(const Request& head) {
  const std::string_view site = head.headers.get("sec-fetch-site");
  const bool is_other = site == "cross-site" || site == "same-site";
  const bool is_link = head.headers.get("sec-fetch-mode") == "navigate" &&
                       head.headers.get("sec-fetch-dest") == "document" &&
                       (head.method == "GET" || head.method == "HEAD");
  return is_other && !is_link;
}

}  // namespace

Gate::Gate(GateOptions options) : options_(std::move(options)) {}

std::string Gate::code_of(std::string_view text) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned int size = 0;
  kinema::check(HMAC(EVP_sha256(), options_.token.data(), static_cast<int>(options_.token.size()),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), code.data(),
                     &size) != nullptr,
                "[http] SHA-256 is not available");
  return fmt::format("{:02x}", fmt::join(code.data(), code.data() + size, ""));
}

Gate::Verdict Gate::check(const Request& head, Access access) const {
  if (!is_listed(options_.hosts, head.headers.get("host"))) {
    return {421, fmt::format("this server is not `{}`\n  give the name that clients use as "
                             "serve_hosts",
                             head.headers.get("host"))};
  }
  const bool has_origin = head.headers.contains("origin");
  const std::string_view origin = head.headers.get("origin");
  const std::string own =
      fmt::format("http{}://{}", head.is_secure ? "s" : "", head.headers.get("host"));
  const bool is_other_listed = has_origin && is_listed(options_.origins, origin);
  if (has_origin && !equal_without_case(origin, own) && !is_other_listed) {
    return {403, fmt::format("pages of `{}` may not ask this server\n  allow them by "
                             "serve_origins",
                             origin)};
  }
  if (!is_other_listed && is_asked_by_other_site(head)) {
    return {403, "pages of other sites may not ask this server\n  allow them by serve_origins"};
  }
  if (access == Access::TOKEN && !has_token(head) && !has_signature(head)) {
    return {401,
            "the token is missing or wrong\n  open the link that `kinema serve` prints, or send "
            "`Authorization: Bearer TOKEN`"};
  }
  return {};
}

bool Gate::has_token(const Request& head) const {
  if (options_.token.empty()) {
    return true;
  }
  const std::string_view field = head.headers.get("authorization");
  std::string given;
  if (const auto bearer = credentials(field, "bearer")) {
    given = *bearer;
  } else if (const auto basic = credentials(field, "basic")) {
    const std::string pair = base64_decoded(*basic).value_or("");
    const size_t colon = pair.find(':');
    given = colon == pair.npos ? "" : pair.substr(colon + 1);
  }
  if (!given.empty()) {
    // Codes of both, so that the time tells nothing of the token's length either.
    return is_same(code_of(given), code_of(options_.token));
  }
  const auto cookies = read_cookies(head.headers.get("cookie"));
  const auto cookie = cookies.find(options_.cookie);
  return cookie != cookies.end() && is_same(cookie->second, code_of("cookie"));
}

bool Gate::has_signature(const Request& head) const {
  const std::string expires = head.argument("expires");
  int64_t until = 0;
  const auto [end, error] = std::from_chars(expires.data(), expires.data() + expires.size(), until);
  return (head.method == "GET" || head.method == "HEAD") && !expires.empty() &&
         error == std::errc() && end == expires.data() + expires.size() && until > unix_seconds() &&
         is_same(head.argument("signature"), code_of("link " + expires + " " + head.path));
}

std::string Gate::signed_query(std::string_view path, int64_t expires) const {
  return fmt::format("expires={}&signature={}", expires,
                     code_of(fmt::format("link {} {}", expires, path)));
}

std::optional<Response> Gate::exchange(const Request& request) const {
  if (!request.query.contains("token")) {
    return std::nullopt;
  }
  const std::string given = request.argument("token");
  if (!options_.token.empty() && !is_same(code_of(given), code_of(options_.token))) {
    return text_response(401, "The token is wrong: open the link that `kinema serve` prints.\n");
  }
  Response out{.status = 303, .headers = {{"Location", "/"}, {"Cache-Control", "no-store"}}};
  if (!options_.token.empty()) {
    out.headers.add("Set-Cookie",
                    set_cookie(options_.cookie, code_of("cookie"), request.is_secure));
  }
  return out;
}

Headers Gate::cross_origin(const Request& head) const {
  const std::string_view origin = head.headers.get("origin");
  if (origin.empty() || !is_listed(options_.origins, origin)) {
    return {};
  }
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE"},
          {"Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID"},
          {"Cross-Origin-Resource-Policy", "cross-origin"},
          {"Vary", "Origin"}};
}

std::string random_token() {
  std::string out = base64(random_bytes(32));
  std::ranges::replace(out, '+', '-');
  std::ranges::replace(out, '/', '_');
  return out.substr(0, out.find('='));
}

std::string random_id(int bits) {
  constexpr std::string_view kLetters = "abcdefghijkmnpqrstuvwxyz23456789";
  static_assert(kLetters.size() == 32);
  std::string out = random_bytes((bits + 4) / 5);
  for (char& c : out) {
    c = kLetters[static_cast<unsigned char>(c) % kLetters.size()];
  }
  return out;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = [] {
    std::array<int8_t, 256> out{};
    out.fill(-1);
    for (size_t i = 0; i < kBase64.size(); ++i) {
      out[static_cast<unsigned char>(kBase64[i])] = static_cast<int8_t>(i);
    }
    out['-'] = out['+'];
    out['_'] = out['/'];
    return out;
  }();
  while (text.ends_with('=')) {
    text.remove_suffix(1);
  }
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) {
      return std::nullopt;
    }
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xff);
    }
  }
  return count < 6 ? std::optional(out) : std::nullopt;
}

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](size_t k) -> uint32_t {
      return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0;
    };
    const uint32_t bits = at(0) << 16 | at(1) << 8 | at(2);
    out += kBase64[bits >> 18];
    out += kBase64[bits >> 12 & 63];
    out += i + 1 < bytes.size() ? kBase64[bits >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kBase64[bits & 63] : '=';
  }
  return out;
}

}  // namespace kinema::http
