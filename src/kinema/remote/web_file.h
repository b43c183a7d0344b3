#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "kinema/remote/http.h"

namespace kinema::remote {

/// Maximum size and time of a download.
struct WebLimits {
  int64_t bytes = int64_t{64} << 20;
  int64_t seconds = 120;
  Timeouts timeouts = {.retries = 2};
};

/// True for text that starts with http:// or https://, in either case.
bool is_web_url(std::string_view text);

/// The file at an http or https URL, as a temporary file that the destructor removes.
class WebFile {
 public:
  /// Downloads it, with at most 5 redirects. Throws an Error of one or two lines, with the URL
  /// without its query (which may contain a key): not found, not permitted, incomplete, larger or
  /// slower than the limits.
  explicit WebFile(const std::string& url, const WebLimits& limits = {});
  WebFile(const WebFile&) = delete;
  WebFile& operator=(const WebFile&) = delete;
  ~WebFile();

  const std::filesystem::path& path() const { return path_; }
  /// The URL for messages.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::filesystem::path path_;
};

}  // namespace kinema::remote
