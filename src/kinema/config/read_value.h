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

/// A key as it was given: in a file, or as the text after `key=`.
struct GivenText {
  std::string_view key;
  const io::Yaml& value;
  std::string where;  ///< `wan.yml:12` or `command line`
};

// Each sets `value` from what was given, checked against `field`, or throws an Error that names
// key, value, place and what was expected.
void read_value(const GivenText& given, const Field& field, bool& value);
void read_value(const GivenText& given, const Field& field, int64_t& value);
void read_value(const GivenText& given, const Field& field, double& value);
void read_value(const GivenText& given, const Field& field, std::string& value);
void read_value(const GivenText& given, const Field& field, Tree& value);
void read_value(const GivenText& given, const Field& field, std::vector<std::string>& value);
void read_value(const GivenText& given, const Field& field, std::vector<int64_t>& value);
void read_value(const GivenText& given, const Field& field, std::vector<double>& value);

/// `field.one_of` holds the words of the choice.
template <Choice T>
void read_value(const GivenText& given, const Field& field, T& value) {
  std::string word;
  read_value(given, field, word);
  value = choice_of<T>(word).value();
}

}  // namespace kinema::config
