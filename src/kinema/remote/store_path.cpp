#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/remote/repo_cache.h"
#include "kinema/remote/store.h"

namespace kinema::remote {
namespace {

constexpr std::string_view kGs = "gs://";
constexpr std::string_view kS3 = "s3://";

}  // namespace

std::string StorePath::text() const {
  return scheme + "://" + bucket + (name.empty() ? "" : "/" + name);
}

StorePath StorePath::below(std::string_view more) const {
  StorePath out = *this;
  if (!more.empty()) {
    out.name += (out.name.empty() ? "" : "/") + std::string(more);
  }
  return out;
}

namespace {

/// An environment variable with a number from 0 to `most`.
int64_t number_of(const char* name, int64_t otherwise, int64_t most) {
  const char* given = std::getenv(name);
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty()) {
    return otherwise;
  }
  int64_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  check(read.ec == std::errc() && read.ptr == text.data() + text.size() && out >= 0 && out <= most,
        "[remote] {} is `{}`, expected 0 to {}", name, text.substr(0, 40), most);
  return out;
}

}  // namespace

Timeouts store_timeouts() {
  return {.retries = static_cast<int>(number_of("KINEMA_STORE_RETRIES", Timeouts().retries, 16))};
}

int64_t records_to_copy() {
  constexpr int64_t kGigabyte = 1'000'000'000;
  return number_of("KINEMA_STORE_COPY_GB", 16, 1'000'000) * kGigabyte;
}

bool is_store_path(std::string_view text) { return text.starts_with(kGs) || text.starts_with(kS3); }

std::optional<StorePath> read_store_path(const std::string& text) {
  if (!is_store_path(text)) {
    return std::nullopt;
  }
  const std::string rest = text.substr(kGs.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  StorePath out{.scheme = text.substr(0, 2),
                .bucket = rest.substr(0, slash),
                .name = rest.substr(std::min(slash + 1, rest.size()))};
  while (out.name.ends_with('/')) {
    out.name.pop_back();
  }
  const bool plain =
      out.bucket.size() >= 3 && out.bucket.size() <= 222 &&
      std::ranges::all_of(out.bucket, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
      });
  check(plain && (out.name.empty() || is_plain_path(out.name)),
        "[remote] `{}` is not of the form {}://BUCKET/PATH: buckets have 3 to 222 of a-z 0-9 - _ .",
        text.substr(0, 200), out.scheme);
  return out;
}

}  // namespace kinema::remote
