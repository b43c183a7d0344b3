#include "kinema/models/config_json.h"

#include <algorithm>
#include <string>

#include "kinema/core/error.h"

namespace kinema {

void ConfigJson::check_class(std::string_view name) const {
  const io::Json& given = json_.at("_class_name");
  check(given.as_string() == name, "[{}] {} is `{}` but must be `{}`", model_, given.where(),
        given.as_string(), name);
}

void ConfigJson::check_known(std::initializer_list<std::string_view> others) const {
  if (const io::Json* quantized = json_.find("quantization_config");
      quantized != nullptr && !quantized->is_null()) {
    const io::Json* method = quantized->is_object() ? quantized->find("quant_method") : nullptr;
    fail(
        "[{}] {}: the weights are quantized by {}, which is not supported\n  use the model "
        "without quantization; weights_storage=int8 or float8_e4m3fn makes its weights small here",
        model_, quantized->where(), method == nullptr ? "another program" : method->brief());
  }
  for (const auto& [key, value] : json_.members()) {
    check(key.starts_with('_') || asked_.contains(key) ||
              std::ranges::find(others, key) != others.end(),
          "[{}] {} is not a key of {}", model_, value.where(), what_);
  }
}

const io::Json& ConfigJson::at(std::string_view key) const {
  asked_.emplace(key);
  return json_.at(key);
}

const io::Json* ConfigJson::find(std::string_view key) const {
  asked_.emplace(key);
  return json_.find(key);
}

void ConfigJson::check_fixed(
    std::initializer_list<std::pair<std::string_view, io::Json>> values) const {
  for (const auto& [key, value] : values) {
    const io::Json* given = find(key);
    if (given != nullptr) {
      check(given->dump(-1) == value.dump(-1), "[{}] {} is {} but this build knows {} only", model_,
            given->where(), given->brief(), value.brief());
    }
  }
}

int64_t ConfigJson::optional_size(std::string_view key, int64_t none) const {
  const io::Json* value = find(key);
  if (value == nullptr || value->is_null()) {
    return none;
  }
  const int64_t size = value->as_int();
  check(size > 0, "[{}] {} is {} but must be positive or null", model_, value->where(), size);
  return size;
}

void ConfigJson::validated(const std::function<void()>& validate) const {
  try {
    validate();
  } catch (const Error& error) {
    const std::string where = json_.where();
    fail("{}\n  read from {}", error.what(), where.substr(0, where.find(": ")));
  }
}

}  // namespace kinema
