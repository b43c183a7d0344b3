#pragma once

#include <type_traits>
#include <utility>

namespace kinema::config {

template <typename T>
struct Given;

template <typename T>
inline constexpr bool is_given = false;
template <typename T>
inline constexpr bool is_given<Given<T>> = true;

/// A value that records whether the user set it. Until then it has its default, and code may use
/// another source instead (the model's folder, another key).
template <typename T>
struct Given {
  T value{};
  bool given = false;

  Given() = default;
  Given(T fallback) : value(std::move(fallback)) {}  // NOLINT(*-explicit-*): `double x = 5.0;`
  /// Sets it.
  Given& operator=(T other) {
    value = std::move(other);
    given = true;
    return *this;
  }
  operator const T&() const { return value; }  // NOLINT(*-explicit-*): used like a T
  /// Compares values, set or not.
  bool operator==(const Given& other) const { return value == other.value; }
  template <typename U>
  requires(!is_given<U>) friend bool operator==(const Given& a, const U& b) { return a.value == b; }
};

/// The value of a plain member or of a Given.
template <typename T>
auto& value_of(T& member) {
  if constexpr (is_given<std::remove_const_t<T>>) {
    return member.value;
  } else {
    return member;
  }
}

}  // namespace kinema::config
