#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/choices.h"
#include "kinema/config/field.h"
#include "kinema/core/error.h"
#include "kinema/io/yaml.h"

namespace kinema::config {

/// A key with its origin: in a file, or the text after `key=`.
struct GivenText {
  std::string_view key;
  const io::Yaml& value;
  std::string where;  ///< `wan.yml:12` or `command line`
};

// Each sets `value` from the given text after checks against `field`. Throws an Error that names
// key, value, origin and the expected values.
void read_value(const GivenText& given, const Field& field, bool& value);
void read_value(const GivenText& given, const Field& field, int64_t& value);
void read_value(const GivenText& given, const Field& field, double& value);
void read_value(const GivenText& given, const Field& field, std::string& value);
void read_value(const GivenText& given, const Field& field, Tree& value);
void read_value(const GivenText& given, const Field& field, std::vector<std::string>& value);
void read_value(const GivenText& given, const Field& field, std::vector<int64_t>& value);
void read_value(const GivenText& given, const Field& field, std::vector<double>& value);

/// `field.one_of` has the names of the enumeration.
template <Choice T>
void read_value(const GivenText& given, const Field& field, T& value) {
  std::string word;
  read_value(given, field, word);
  value = choice_of<T>(word).value();
}

}  // namespace kinema::config
