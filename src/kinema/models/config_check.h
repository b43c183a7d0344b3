#pragma once

#include <cstdint>
#include <string_view>

namespace kinema {

/// What the configurations of all models are asked. Throws Errors that begin with the model's name.
struct ConfigCheck {
  std::string_view model;

  /// A size must be from `low` to `high`.
  void range(std::string_view key, int64_t value, int64_t low, int64_t high) const;
  /// What is added to a variance must be finite and between 0 and 1.
  void epsilon(std::string_view key, double value) const;
};

}  // namespace kinema
