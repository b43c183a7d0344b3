#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/interpreter/mlir_types.h"
#include "kinema/core/host_array.h"

namespace kinema::interpreter {

struct Memory;

/// The content of a value. Floats of all widths are stored as float, rounded to their type;
/// integers of all widths as int64_t, in their type's range (i1: 0 and 1).
struct Value {
  Type type;
  std::vector<float> floats;
  std::vector<int64_t> integers;
  /// The memory of a memref or of pointers, whose offsets in elements are `integers`.
  Memory* memory = nullptr;

  Value() = default;
  /// Zeros.
  explicit Value(Type t);

  bool has_floats() const { return is_float(type.element) && !type.pointer; }
  int64_t integer() const { return integers.front(); }
};

/// A window, scratch, or an array of the device.
struct Memory {
  Value contents;
  std::string name;
  bool read_only = false;
  /// Triton: the program that wrote each element, or -1.
  std::vector<int64_t> writer;
};

/// Sets contents that give wrong results wherever they are used: NaN; -77777, or 77 if that is too
/// large.
void spoil(Value* value);

/// Rounds to the element type's precision, to nearest even.
void round_to(Element element, std::span<float> values);
float rounded_to(Element element, float value);
/// The low bits, interpreted in the element type.
int64_t wrapped_to(Element element, int64_t value);

/// An array with the same dims and the element type of its dtype; `type` becomes a memref.
Value from_array(const HostArray& array);
HostArray to_array(const Value& value, DType dtype);

}  // namespace kinema::interpreter
