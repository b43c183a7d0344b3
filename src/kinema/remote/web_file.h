#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "kinema/remote/http.h"

namespace kinema::remote {

/// How much of a file a server may send, and for how long.
struct WebLimits {
  int64_t bytes = int64_t{64} << 20;
  int64_t seconds = 120;
  Patience patience = {.retries = 2};
};

/// True for text that begins with http:// or https://, in letters of either case.
bool is_web_url(std::string_view text);

/// What a URL of http or https names, as a temporary file that goes with the object.
class WebFile {
 public:
  /// Fetches it, over at most 5 redirects. Throws an Error in one or two lines, which names the URL
  /// without its query (there may be a key in it): not there, not permitted, no whole file, larger
  /// or slower than the limits.
  explicit WebFile(const std::string& url, const WebLimits& limits = {});
  WebFile(const WebFile&) = delete;
  WebFile& operator=(const WebFile&) = delete;
  ~WebFile();

  const std::filesystem::path& path() const { return path_; }
  /// The URL as messages show it.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::filesystem::path path_;
};

}  // namespace kinema::remote
