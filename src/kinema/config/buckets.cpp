#include "kinema/config/buckets.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::config {
namespace {

using io::Json;
using Size = std::array<int64_t, 3>;

constexpr int64_t kMost = 1 << 20;

/// `81x480x832`.
std::optional<Size> read_word(std::string_view text) {
  Size out{};
  for (size_t i = 0; i < 3; ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out[i]);
    if (error != std::errc()) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (i < 2) {
      if (!text.starts_with('x')) {
        return std::nullopt;
      }
      text.remove_prefix(1);
    }
  }
  return text.empty() ? std::optional(out) : std::nullopt;
}

bool is_size(const Json& json) {
  return json.is_array() && json.items().size() == 3 &&
         std::ranges::all_of(json.items(),
                             [](const Json& item) { return item.kind() == Json::Kind::Integer; });
}

Size read_size(const Json& json) {
  std::optional<Size> out;
  if (is_size(json)) {
    const std::vector<int64_t> numbers = json.as_ints();
    out = Size{numbers[0], numbers[1], numbers[2]};
  } else if (json.is_string()) {
    out = read_word(json.as_string());
  }
  const auto fits = [](int64_t number) { return number > 0 && number <= kMost; };
  check(out && std::ranges::all_of(*out, fits),
        "[config] buckets: {} is not a size: expected [frames, height, width], like [81, 480, 832] "
        "or 81x480x832",
        json.dump(-1));
  return *out;
}

}  // namespace

Buckets read_buckets(const DataConfig& config) {
  return read_buckets(Json::parse(config.buckets.json, "buckets"));
}

Buckets read_buckets(const Json& json) {
  if (json.is_null()) {
    return {};
  }
  Buckets out{.on = true};
  if (json.is_string() && json.as_string() == "auto") {
    return out;
  }
  if (json.is_array() && !is_size(json)) {
    for (const Json& item : json.items()) {
      const Size size = read_size(item);
      check(std::ranges::find(out.sizes, size) == out.sizes.end(),
            "[config] buckets: {} is given twice", item.dump(-1));
      out.sizes.push_back(size);
    }
    out.on = !out.sizes.empty();
  } else {
    out.sizes.push_back(read_size(json));
  }
  return out;
}

}  // namespace kinema::config
