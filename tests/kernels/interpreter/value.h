#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/interpreter/mlir_types.h"
#include "kinema/core/host_array.h"

namespace kinema::interpreter {

struct Memory;

/// What a value of a text holds. Floats of all widths are kept as float, rounded to their type;
/// integers of all widths as int64_t, in their type's range (i1: 0 and 1).
struct Value {
  Type type;
  std::vector<float> floats;
  std::vector<int64_t> integers;
  /// A memref's or pointers' memory; pointers' offsets in it, in elements, are `integers`.
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

/// Makes contents what is wrong wherever it is used: NaN; -77777, or 77 where that is too large.
void spoil(Value* value);

/// To the element type's precision, to nearest even.
void round_to(Element element, std::span<float> values);
float rounded_to(Element element, float value);
/// The low bits, as the element type reads them.
int64_t wrapped_to(Element element, int64_t value);

/// Of the same dims and the element type that belongs to its dtype; the kind of `type` is a memref.
Value from_array(const HostArray& array);
HostArray to_array(const Value& value, DType dtype);

}  // namespace kinema::interpreter
