#pragma once

#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "kinema/io/json.h"

namespace kinema {

/// What readers of `config.json` share. Errors begin with the model's name and name file and key.
class ConfigJson {
 public:
  /// `model`: `flux`, as messages begin; `what`: `a Flux transformer`.
  ConfigJson(std::string_view model, std::string_view what, const io::Json& json)
      : model_(model), what_(what), json_(json) {}

  /// The members of Json, which also make a key known.
  const io::Json& at(std::string_view key) const;
  const io::Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// `_class_name` must be this.
  void check_class(std::string_view name) const;
  /// Every key must be one that was asked for, or that changes nothing here (`others`); diffusers'
  /// own bookkeeping begins with an underscore. For when all is read.
  void check_known(std::initializer_list<std::string_view> others = {}) const;
  /// Keys that may hold one value only, where they are there at all.
  void check_fixed(std::initializer_list<std::pair<std::string_view, io::Json>> values) const;
  /// A size that may be null or absent, which both stand for `none`.
  int64_t optional_size(std::string_view key, int64_t none) const;
  /// `validate`, whose Errors are said to be of this file.
  void validated(const std::function<void()>& validate) const;

 private:
  std::string_view model_;
  std::string_view what_;
  const io::Json& json_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace kinema
