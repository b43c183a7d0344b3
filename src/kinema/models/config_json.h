#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "kinema/io/json.h"

namespace kinema {

/// What readers of `config.json` share. Errors begin with the model's name and name file and key.
struct ConfigJson {
  std::string_view model;  // `flux`, as messages begin
  std::string_view what;   // `a Flux transformer`
  const io::Json& json;

  /// `_class_name` must be this.
  void check_class(std::string_view name) const;
  /// Every key must be among these; diffusers' own bookkeeping begins with an underscore.
  void check_known(std::span<const std::string_view> keys) const;
  /// Keys that may hold one value only, where they are there at all.
  void check_fixed(std::initializer_list<std::pair<std::string_view, io::Json>> values) const;
  /// A size that may be null or absent, which both stand for `none`.
  int64_t optional_size(std::string_view key, int64_t none) const;
  /// `validate`, whose Errors are said to be of this file.
  void validated(const std::function<void()>& validate) const;
};

}  // namespace kinema
