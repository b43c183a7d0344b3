#include "kinema/models/config_json.h"

#include <algorithm>
#include <string>

#include "kinema/core/error.h"

namespace kinema {

void ConfigJson::check_class(std::string_view name) const {
  const io::Json& given = json.at("_class_name");
  check(given.as_string() == name, "[{}] {} is `{}` but must be `{}`", model, given.where(),
        given.as_string(), name);
}

void ConfigJson::check_known(std::span<const std::string_view> keys) const {
  for (const auto& [key, value] : json.members()) {
    check(key.starts_with('_') || std::ranges::find(keys, key) != keys.end(),
          "[{}] {} is not a key of {}", model, value.where(), what);
  }
}

void ConfigJson::check_fixed(
    std::initializer_list<std::pair<std::string_view, io::Json>> values) const {
  for (const auto& [key, value] : values) {
    const io::Json* given = json.find(key);
    if (given != nullptr) {
      check(given->dump(-1) == value.dump(-1), "[{}] {} is {} but this build knows {} only", model,
            given->where(), given->dump(-1), value.dump(-1));
    }
  }
}

int64_t ConfigJson::optional_size(std::string_view key, int64_t none) const {
  const io::Json* value = json.find(key);
  if (value == nullptr || value->is_null()) {
    return none;
  }
  const int64_t size = value->as_int();
  check(size > 0, "[{}] {} is {} but must be positive or null", model, value->where(), size);
  return size;
}

void ConfigJson::validated(const std::function<void()>& validate) const {
  try {
    validate();
  } catch (const Error& error) {
    const std::string where = json.where();
    fail("{}\n  read from {}", error.what(), where.substr(0, where.find(": ")));
  }
}

}  // namespace kinema
