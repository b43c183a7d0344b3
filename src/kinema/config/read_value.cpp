#include "kinema/config/read_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "kinema/config/keys.h"
#include "kinema/config/scalar.h"
#include "kinema/io/json.h"

namespace kinema::config {
namespace {

using io::Json;
using io::Yaml;

/// The value of one_of that allows any hexadecimal color.
constexpr std::string_view kAnyColour = "#rrggbb";

/// A value, shortened for messages.
std::string shown(const Yaml& value) {
  switch (value.kind()) {
    case Yaml::Kind::Null:
      return "nothing";
    case Yaml::Kind::Sequence:
      return "a list";
    case Yaml::Kind::Mapping:
      return "a mapping";
    case Yaml::Kind::Scalar:
      break;
  }
  constexpr size_t kLongest = 60;
  const std::string& text = value.text();
  return "`" + (text.size() > kLongest ? text.substr(0, kLongest) + "..." : text) + "`";
}

/// True for an integer outside the range of int64.
bool is_too_large(std::string_view text, std::string_view type) {
  if (text.starts_with('-') || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const bool is_integer = type == "an integer" || type == "a list of integers";
  return is_integer && !text.empty() && text[0] != '0' && !to_int(text) &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

[[noreturn]] void refuse(const GivenText& given, const Yaml& value, std::string_view type,
                         const Field& field) {
  std::string remedy;
  if (value.kind() == Yaml::Kind::Scalar && type.ends_with("integer") && value.text().size() > 1 &&
      value.text()[0] == '0') {
    remedy = " (a leading 0 may mean octal: write 8 or 0o10)";
  }
  if (value.kind() == Yaml::Kind::Scalar && is_too_large(value.text(), type)) {
    remedy = fmt::format(" (integers go from {} to {})", std::numeric_limits<int64_t>::min(),
                         std::numeric_limits<int64_t>::max());
  }
  fail("[config] {} is {} ({}), expected {}{}", given.key, shown(value), given.where,
       expectation(type, field), remedy);
}

/// Converts a scalar, also a quoted one: "1e-5" is often quoted because YAML 1.1 reads it as text.
template <typename T, typename Convert>
T scalar(const GivenText& given, const Yaml& value, std::string_view type, const Field& field,
         Convert convert) {
  std::optional<T> out;
  if (value.kind() == Yaml::Kind::Scalar) {
    out = convert(value.text());
  }
  if (!out) {
    refuse(given, value, type, field);
  }
  return *out;
}

template <typename T>
void check_range(const GivenText& given, const Yaml& value, std::string_view type,
                 const Field& field, T number) {
  const auto x = static_cast<double>(number);
  const bool in_range = x >= field.min && x <= field.max && x > field.above;
  const bool whole_multiple =
      field.multiple_of == 1 || x <= 0 || std::fmod(x, static_cast<double>(field.multiple_of)) == 0;
  if (!in_range || !whole_multiple || (field.not_zero && x == 0)) {
    refuse(given, value, type, field);
  }
}

void check_text(const GivenText& given, const std::string& text) {
  check(is_utf8(text), "[config] {} ({}) is not text in UTF-8", given.key, given.where);
}

/// `#20c0ff`.
bool is_colour(std::string_view text) {
  return text.size() == kAnyColour.size() && text[0] == '#' &&
         text.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string_view::npos;
}

/// `text` with the case of one_of; unchanged if any text is valid.
std::string checked_word(const GivenText& given, const Yaml& value, std::string_view type,
                         const Field& field, const std::string& text) {
  check_text(given, text);
  if (field.one_of.empty()) {
    const bool only_blanks =
        !text.empty() && text.find_first_not_of(" \t\r\n") == std::string::npos;
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    check(field.prose || !std::ranges::any_of(text, is_control),
          "[config] {} holds a line break or another control character ({}), expected {}",
          given.key, given.where, type);
    check(!only_blanks || field.prose,
          "[config] {} is only whitespace ({}), expected {} or nothing", given.key, given.where,
          type);
    return text;
  }
  const auto same = [&](std::string_view a, std::string_view b) {
    return a == b || (field.any_case && std::ranges::equal(a, b, [](char x, char y) {
                        return std::tolower(static_cast<unsigned char>(x)) ==
                               std::tolower(static_cast<unsigned char>(y));
                      }));
  };
  for (const std::string_view word : words(field.one_of)) {
    if (same(word, text)) {
      return std::string(word);
    }
    if (word == kAnyColour && is_colour(text)) {
      return text;
    }
  }
  refuse(given, value, type, field);
}

int64_t read_int(const GivenText& given, const Yaml& value, std::string_view type,
                 const Field& field) {
  const auto number = scalar<int64_t>(given, value, type, field, to_int);
  check_range(given, value, type, field, number);
  return number;
}

double read_double(const GivenText& given, const Yaml& value, std::string_view type,
                   const Field& field) {
  const auto number = scalar<double>(given, value, type, field, to_double);
  check_range(given, value, type, field, number);
  return number;
}

template <typename T, typename ReadItem>
std::vector<T> read_list(const GivenText& given, std::string_view type, const Field& field,
                         ReadItem read_item) {
  std::vector<T> out;
  const bool none = given.value.kind() == Yaml::Kind::Null;
  const bool alone = field.or_item && given.value.kind() == Yaml::Kind::Scalar;
  if (!none && !alone && given.value.kind() != Yaml::Kind::Sequence) {
    refuse(given, given.value, type, field);
  }
  if (alone) {
    out.push_back(read_item(given.value));
  } else if (!none) {
    for (const Yaml& item : given.value.items()) {
      out.push_back(read_item(item));
    }
  }
  const auto count = static_cast<int64_t>(out.size());
  check(count >= field.min_items && (field.items == 0 || count == field.items),
        "[config] {} has {} items ({}), expected {}", given.key, count, given.where,
        expectation(type, field));
  for (auto item = out.begin(); field.distinct && item != out.end(); ++item) {
    check(std::find(out.begin(), item, *item) == item, "[config] {} has `{}` twice ({})", given.key,
          *item, given.where);
  }
  return out;
}

bool stands_for_default(const GivenText& given, const Field& field) {
  return field.null_is_default && given.value.kind() == Yaml::Kind::Null;
}

/// A value of any structure as JSON; unquoted scalars become numbers, booleans or null if they look
/// like them.
Json to_json(const GivenText& given, const Yaml& value) {
  switch (value.kind()) {
    case Yaml::Kind::Null:
      return {};
    case Yaml::Kind::Sequence: {
      Json out = Json::array();
      for (const Yaml& item : value.items()) {
        out.append(to_json(given, item));
      }
      return out;
    }
    case Yaml::Kind::Mapping: {
      Json out = Json::object();
      for (const Yaml::Member& member : value.members()) {
        check_text(given, member.key);
        out.set(member.key, to_json(given, member.value));
      }
      return out;
    }
    case Yaml::Kind::Scalar:
      break;
  }
  check_text(given, value.text());
  if (!value.quoted()) {
    if (const auto truth = to_bool(value.text())) {
      return {*truth};
    }
    const bool has_point = value.text().find_first_of(".eE") != std::string::npos;
    if (const auto number = to_double(value.text()); number && has_point) {
      return {*number};
    }
    if (const auto whole = to_int(value.text())) {
      return {*whole};
    }
  }
  return {value.text()};
}

}  // namespace

void read_value(const GivenText& given, const Field& field, bool& value) {
  value = scalar<bool>(given, given.value, "true or false", field, to_bool);
}

void read_value(const GivenText& given, const Field& field, int64_t& value) {
  if (!stands_for_default(given, field)) {
    value = read_int(given, given.value, "an integer", field);
  }
}

void read_value(const GivenText& given, const Field& field, double& value) {
  if (!stands_for_default(given, field)) {
    value = read_double(given, given.value, "a number", field);
  }
}

void read_value(const GivenText& given, const Field& field, std::string& value) {
  const Yaml& yaml = given.value;
  if (yaml.kind() != Yaml::Kind::Scalar && yaml.kind() != Yaml::Kind::Null) {
    refuse(given, yaml, "text", field);
  }
  value = checked_word(given, yaml, "text", field, yaml.text());
}

void read_value(const GivenText& given, const Field& /*field*/, Tree& value) {
  value.json = to_json(given, given.value).dump(-1);
}

void read_value(const GivenText& given, const Field& field, std::vector<std::string>& value) {
  constexpr std::string_view kType = "a list of words";
  value = read_list<std::string>(given, kType, field, [&](const Yaml& item) {
    if (item.kind() != Yaml::Kind::Scalar) {
      refuse(given, item, kType, field);
    }
    return checked_word(given, item, kType, field, item.text());
  });
}

void read_value(const GivenText& given, const Field& field, std::vector<int64_t>& value) {
  constexpr std::string_view kType = "a list of integers";
  value = read_list<int64_t>(given, kType, field,
                             [&](const Yaml& item) { return read_int(given, item, kType, field); });
}

void read_value(const GivenText& given, const Field& field, std::vector<double>& value) {
  constexpr std::string_view kType = "a list of numbers";
  value = read_list<double>(given, kType, field, [&](const Yaml& item) {
    return read_double(given, item, kType, field);
  });
}

}  // namespace kinema::config
