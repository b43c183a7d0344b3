// Any text as the parts of a request that this program reads itself: the target, with the route
// that answers it, cookies, ranges, credentials, event ids, JSON bodies.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/http/cookies.h"
#include "kinema/http/events.h"
#include "kinema/http/file_response.h"
#include "kinema/http/gate.h"
#include "kinema/http/json_body.h"
#include "kinema/http/ranges.h"
#include "kinema/http/router.h"
#include "kinema/http/target.h"

namespace {

using namespace kinema;

const http::Router& router() {
  static const http::Router table = [] {
    http::Router out;
    for (const char* pattern : {"/", "/{page}", "/api/jobs", "/api/jobs/{id}", "/api/{a}/{b}"}) {
      out.add({.method = "GET", .pattern = pattern});
    }
    return out;
  }();
  return table;
}

void find_route(const std::string& text) {
  const auto target = http::read_target(text);
  if (!target) {
    return;
  }
  for (const std::string& segment : target->segments) {
    if (!http::is_plain_text(segment)) {
      std::abort();
    }
  }
  const auto match = router().find("GET", target->segments);
  for (const auto& [name, value] : match.params) {
    if (value.empty() || text.size() < value.size()) {
      std::abort();
    }
  }
}

void read_part(const std::string& text) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{1000}}) {
    const http::ByteRange range = http::read_range(text, size);
    if (range.kind == http::ByteRange::Kind::PART &&
        (range.begin < 0 || range.begin >= range.end || range.end > size)) {
      std::abort();
    }
  }
}

/// Whatever it says, a request without the token is not answered.
void ask_without_token(const std::string& text) {
  static const http::Gate gate({.hosts = {"h"}, .token = http::random_token()});
  http::Request head{.method = "GET", .target = "/files/a", .path = "/files/a"};
  head.headers.add("Host", "h").add("Authorization", text).add("Cookie", text);
  head.query = {{"expires", text}, {"signature", text}};
  if (gate.check(head, http::Access::TOKEN).status != 401) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const AllocationLimit limit(8 * size);
  try {
    switch (data[0] % 7) {
      case 0:
        find_route(text);
        break;
      case 1:
        http::read_cookies(text);
        break;
      case 2:
        read_part(text);
        break;
      case 3:
        ask_without_token(text);
        break;
      case 4:
        if (const auto bytes = http::base64_decoded(text);
            bytes && http::base64_decoded(http::base64(*bytes)) != bytes) {
          std::abort();
        }
        break;
      case 5:
        http::json_body({.body = text});
        break;
      default:
        http::read_event_id(text);
        if (http::Headers().add("A", text).get("a").find_first_of("\r\n") != std::string::npos ||
            http::attachment(text).find_first_of("\r\n") != std::string::npos) {
          std::abort();
        }
    }
  } catch (const http::Refusal&) {
  } catch (const Error&) {
  }
  return 0;
}
