#pragma once

#include <cstdint>
#include <string_view>

namespace kinema {

/// Checks that the configurations of all models share. Their Errors start with the model's name.
struct ConfigCheck {
  std::string_view model;

  /// Throws an Error unless a size is from `low` to `high`.
  void range(std::string_view key, int64_t value, int64_t low, int64_t high) const;
  /// Throws an Error unless a norm's epsilon is finite and between 0 and 1.
  void epsilon(std::string_view key, double value) const;
};

}  // namespace kinema
