#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::schedulers {

/// The names of an enumeration's values.
template <typename Enum, size_t N>
using Words = std::array<std::pair<std::string_view, Enum>, N>;

/// The value with this name; throws an Error that lists the names for another one. `key`: what the
/// name was given for.
template <typename Enum, size_t N>
Enum read_word(const Words<Enum, N>& words, std::string_view key, std::string_view name) {
  std::string known;
  for (const auto& [word, value] : words) {
    if (word == name) {
      return value;
    }
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  fail("[scheduler] {} is `{}`, expected one of {}", key, name, known);
}

template <typename Enum, size_t N>
std::string_view word_of(const Words<Enum, N>& words, Enum value) {
  for (const auto& [name, each] : words) {
    if (each == value) {
      return name;
    }
  }
  fail("[scheduler] unknown value {}", static_cast<int>(value));
}

}  // namespace kinema::schedulers
