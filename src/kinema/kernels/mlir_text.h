#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

/// Common parts of kernel texts in MLIR's generic form. Each `Type` needs a to_string.
namespace kinema::kernels {

/// The result of an operation, or an argument.
template <typename Type>
struct MlirValue {
  std::string name;
  Type type;
};

enum class Compare : uint8_t { EQ, NE, LT, LE, GT, GE };
enum class Reduce : uint8_t { MAX, SUM };

/// `format(value)` of each, with commas between.
template <typename Value, typename Format>
std::string mlir_list(const std::vector<Value>& values, const Format& format) {
  std::string out;
  for (const Value& each : values) {
    out += (out.empty() ? "" : ", ") + format(each);
  }
  return out;
}
/// `%0, %1`
template <typename Type>
std::string names(const std::vector<MlirValue<Type>>& values) {
  return mlir_list(values, [](const auto& each) { return each.name; });
}
/// `f32, i32`
template <typename Type>
std::string types(const std::vector<MlirValue<Type>>& values) {
  return mlir_list(values, [](const auto& each) { return to_string(each.type); });
}
/// `%0: f32, %1: i32`
template <typename Type>
std::string with_types(const std::vector<MlirValue<Type>>& values) {
  return mlir_list(values, [](const auto& each) {
    return fmt::format("{}: {}", each.name, to_string(each.type));
  });
}

/// The lines of a function's body.
class MlirLines {
 public:
  const std::string& text() const { return text_; }

 protected:
  void line(const std::string& text) {
    text_.append(static_cast<size_t>(2 * indent_), ' ');
    text_ += text;
    text_ += '\n';
  }
  /// A result with a new name.
  template <typename Type>
  MlirValue<Type> fresh(const Type& type) {
    return {fmt::format("%{}", next_++), type};
  }

  int64_t indent_ = 2;

 private:
  std::string text_;
  int64_t next_ = 0;
};

}  // namespace kinema::kernels
