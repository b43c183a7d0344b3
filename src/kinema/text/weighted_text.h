#pragma once

#include <string>

namespace kinema::text {

/// A part of a prompt whose tokens have the same weight.
struct WeightedText {
  std::string text;
  double weight = 1.0;

  bool operator==(const WeightedText&) const = default;
};

}  // namespace kinema::text
