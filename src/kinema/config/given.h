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

/// A value that knows whether anybody gave it: where nobody did, something else may decide in its
/// place (the model's own folder, another key). It is its default until then.
template <typename T>
struct Given {
  T value{};
  bool given = false;

  Given() = default;
  Given(T fallback) : value(std::move(fallback)) {}  // NOLINT(*-explicit-*): `double x = 5.0;`
  /// Gives it.
  Given& operator=(T other) {
    value = std::move(other);
    given = true;
    return *this;
  }
  operator const T&() const { return value; }  // NOLINT(*-explicit-*): read like a T
  /// By value, whoever gave it.
  bool operator==(const Given& other) const { return value == other.value; }
  template <typename U>
  requires(!is_given<U>) friend bool operator==(const Given& a, const U& b) { return a.value == b; }
};

/// The value itself, whether it knows that it was given or not.
template <typename T>
auto& value_of(T& member) {
  if constexpr (is_given<std::remove_const_t<T>>) {
    return member.value;
  } else {
    return member;
  }
}

}  // namespace kinema::config
