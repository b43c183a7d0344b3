#include "kinema/model_files/transformers_config.h"

#include "kinema/core/error.h"

namespace kinema::model_files {

using io::Json;

std::string class_of(const Json& config) {
  const Json* names = config.is_object() ? config.find("architectures") : nullptr;
  const bool named = names != nullptr && names->is_array() && !names->items().empty();
  return named && names->items()[0].is_string() ? names->items()[0].as_string() : "";
}

int64_t int_or(const Json& json, std::string_view key, int64_t otherwise) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? otherwise : value->as_int();
}

double number_or(const Json& json, std::string_view key, double otherwise) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? otherwise : value->as_number();
}

void expect_value(const Json& json, std::string_view key, std::string_view word) {
  const Json* value = json.find(key);
  if (value != nullptr && !value->is_null()) {
    check(value->as_string() == word, "[weights] {} is `{}` but this build knows `{}` only",
          value->where(), value->as_string(), word);
  }
}

void validated(const Json& document, const std::function<void()>& validate) {
  try {
    validate();
  } catch (const Error& error) {
    const std::string where = document.where();
    fail("{}\n  read from {}", error.what(), where.substr(0, where.find(": ")));
  }
}

}  // namespace kinema::model_files
