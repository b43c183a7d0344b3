#include "kinema/io/toml.h"

#include "kinema/core/error.h"

// Settings of toml++: its errors are exceptions, and nesting is bounded. Some invalid files fail
// its assertions (a zero byte after the `[` of a table), which are therefore exceptions as well.
#define TOML_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : throw ::kinema::Error("[toml] not TOML"))
#define TOML_EXCEPTIONS 1
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 64
// Assertions in its noexcept functions still end the process.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wexceptions"
#else
#pragma GCC diagnostic ignored "-Wterminate"
#endif
#pragma push_macro("NDEBUG")
#undef NDEBUG  // with it, toml++ compiles assertions as assumptions: undefined behaviour
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <sstream>
#include <string>

#include "kinema/io/mapped_file.h"

namespace kinema::io {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;

Json to_json(const toml::node& node) {
  if (const toml::table* table = node.as_table()) {
    Json out = Json::object();
    for (const auto& [key, value] : *table) {
      out.set(key.str(), to_json(value));
    }
    return out;
  }
  if (const toml::array* array = node.as_array()) {
    Json out = Json::array();
    for (const toml::node& each : *array) {
      out.append(to_json(each));
    }
    return out;
  }
  if (const auto* text = node.as_string()) {
    return {text->get()};
  }
  if (const auto* number = node.as_integer()) {
    return {number->get()};
  }
  if (const auto* number = node.as_floating_point()) {
    return {number->get()};
  }
  if (const auto* value = node.as_boolean()) {
    return {value->get()};
  }
  std::ostringstream date;
  if (const auto* day = node.as_date()) {
    date << *day;
  } else if (const auto* time = node.as_time()) {
    date << *time;
  } else if (const auto* both = node.as_date_time()) {
    date << *both;
  }
  return {date.str()};
}

/// Throws toml::parse_error, or an Error without a line number for a failed assertion.
toml::table parse_document(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text, source);
  } catch (const Error&) {
    fail("[toml] {} is not TOML: it has an unexpected character", source);
  }
}

}  // namespace

Json parse_toml(std::string_view text, std::string_view source) {
  check(text.size() <= kMostBytes, "[toml] {} has {} bytes, expected at most {}", source,
        text.size(), kMostBytes);
  try {
    const toml::table document = parse_document(text, source);
    // Through text, so that errors about a value name its place.
    return Json::parse(to_json(document).dump(-1), source);
  } catch (const toml::parse_error& error) {
    fail("[toml] {}:{}: {}", source, error.source().begin.line, error.description());
  }
}

Json read_toml(const std::filesystem::path& path) {
  return parse_toml(read_text(path, kMostBytes), path.string());
}

}  // namespace kinema::io
