#include "kinema/remote/web_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/descriptor.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

/// Without query, fragment, user and password.
std::string shown(const std::string& url) {
  std::string out = url.substr(0, url.find_first_of("?#"));
  const size_t host = out.find("://") + 3;
  const size_t path = std::min(out.find('/', host), out.size());
  if (const size_t at = out.rfind('@', path); at != std::string::npos && at >= host) {
    out.erase(host, at + 1 - host);
  }
  return out.size() > 200 ? out.substr(0, 200) + "..." : out;
}

void refuse(const Response& response, const std::string& name) {
  const int status = response.status;
  check(status != 404 && status != 410, "[remote] {} does not exist ({})", name, status);
  check(status != 401 && status != 403,
        "[remote] {} is not permitted ({})\n  fetch it with a browser or curl, and give its path",
        name, status);
  check(status / 100 != 3, "[remote] {} redirects more than 5 times, or to nowhere ({})", name,
        status);
  check(!is_transient(status), "[remote] {}: the server answers {}\n  try again later", name,
        status);
  fail("[remote] {}: the server answers {}", name, status);
}

/// The complete body.
std::string fetch(const std::string& url, const std::string& name, const WebLimits& limits) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::string out;
  const auto check_size = [&](int64_t bytes) {
    check(bytes <= limits.bytes, "[remote] {} is larger than {} bytes, which is the most", name,
          limits.bytes);
  };
  Request request{.url = url, .headers = {"Accept-Encoding: identity"}};
  request.on_begin = [&](const Response& response) {
    out.clear();  // a retry starts from the beginning
    const std::string size = response.header("content-length");
    check_size(size.size() > 18 ? limits.bytes + 1 : std::atoll(size.c_str()));
  };
  request.sink = [&](std::span<const std::byte> bytes) {
    check_size(static_cast<int64_t>(out.size() + bytes.size()));
    check(Clock::now() - start < std::chrono::seconds(limits.seconds),
          "[remote] {} was not downloaded within {} s\n  fetch it first, and give its path", name,
          limits.seconds);
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  try {
    const Response response = send_following(std::move(request), limits.timeouts);
    if (response.status != 200) {
      refuse(response, name);
    }
  } catch (const NetworkError& error) {
    fail("[remote] {} was not downloaded: {}\n  check the network, then run again", name,
         error.reason());
  }
  return out;
}

}  // namespace

bool is_web_url(std::string_view text) {
  const auto begins = [&](std::string_view scheme) {
    return text.size() >= scheme.size() &&
           std::ranges::equal(scheme, text.substr(0, scheme.size()), [](char a, char b) {
             return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
           });
  };
  return begins("http://") || begins("https://");
}

WebFile::WebFile(const std::string& url, const WebLimits& limits) {
  origin_of(url);  // throws unless it is a URL
  name_ = shown(url);
  const std::string body = fetch(url, name_, limits);
  std::string path = (fs::temp_directory_path() / "kinema-XXXXXX").string();
  check(static_cast<bool>(io::Descriptor(::mkstemp(path.data()))), "[remote] cannot write {}: {}",
        path, errno_text(errno));
  path_ = path;
  try {
    io::write_file(path_, body);
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
}

WebFile::~WebFile() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

}  // namespace kinema::remote
