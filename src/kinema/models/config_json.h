#pragma once

#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "kinema/io/json.h"

namespace kinema {

/// A reader of `config.json`. Errors start with the model's name and contain file and key.
class ConfigJson {
 public:
  /// `model`: the start of messages, `flux`; `what`: `a Flux transformer`.
  ConfigJson(std::string_view model, std::string_view what, const io::Json& json)
      : model_(model), what_(what), json_(json) {}

  /// As in Json; the key is then a known one.
  const io::Json& at(std::string_view key) const;
  const io::Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// Throws an Error unless `_class_name` is `name`.
  void check_class(std::string_view name) const;
  /// Throws an Error for a key that was not read and is not one of `others`, which have no effect
  /// in kinema. Diffusers' internal keys, which start with an underscore, are ignored. Call it
  /// last.
  void check_known(std::initializer_list<std::string_view> others = {}) const;
  /// Throws an Error for one of these keys with another value; they may be missing.
  void check_fixed(std::initializer_list<std::pair<std::string_view, io::Json>> values) const;
  /// A size that may be null or missing: then it is `none`.
  int64_t optional_size(std::string_view key, int64_t none) const;
  /// Calls `validate` and adds this file's name to its Errors.
  void validated(const std::function<void()>& validate) const;

 private:
  std::string_view model_;
  std::string_view what_;
  const io::Json& json_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace kinema
