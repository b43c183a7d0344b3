#include "kernels/interpreter/value.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "kinema/core/bf16.h"
#include "kinema/core/error.h"

namespace kinema::interpreter {
namespace {

template <typename T>
void read(const HostArray& array, Value* value) {
  const auto from = array.as<T>();
  std::copy(from.begin(), from.end(), value->integers.begin());
}

template <typename T>
void write(const Value& value, HostArray* array) {
  std::transform(value.integers.begin(), value.integers.end(), array->as<T>().begin(),
                 [](int64_t x) { return static_cast<T>(x); });
}

}  // namespace

Value::Value(Type t) : type(std::move(t)) {
  const auto count = static_cast<size_t>(type.elements());
  if (has_floats()) {
    floats.resize(count);
  } else {
    integers.resize(count);
  }
}

void spoil(Value* value) {
  std::fill(value->floats.begin(), value->floats.end(), std::numeric_limits<float>::quiet_NaN());
  const int bits = width(value->type.element);
  std::fill(value->integers.begin(), value->integers.end(),
            bits == 1    ? 0
            : bits <= 16 ? 77
                         : -77777);
}

float rounded_to(Element element, float value) {
  switch (element) {
    case Element::BF16:
      return bf16_to_f32(f32_to_bf16(value));
    case Element::F16:
      return f16_to_f32(f32_to_f16(value));
    default:
      return value;
  }
}

void round_to(Element element, std::span<float> values) {
  if (element == Element::F32) return;
  for (float& value : values) value = rounded_to(element, value);
}

int64_t wrapped_to(Element element, int64_t value) {
  const int bits = width(element);
  if (bits == 64) return value;
  if (bits == 1) return value & 1;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
}

Value from_array(const HostArray& array) {
  Type type;
  type.kind = Type::Kind::MEMREF;
  type.element = element_of(array.shape.dtype);
  type.dims = array.shape.dims;
  check(array.bytes.size() == static_cast<size_t>(array.shape.bytes()),
        "[interpreter] {} bytes do not make {}", array.bytes.size(), to_string(array.shape));
  Value out(type);
  if (out.has_floats()) {
    const HostArray wide = convert(array, DType::F32);
    std::memcpy(out.floats.data(), wide.bytes.data(), wide.bytes.size());
    return out;
  }
  switch (byte_size(array.shape.dtype)) {
    case 1:
      read<int8_t>(array, &out);
      break;
    case 2:
      read<int16_t>(array, &out);
      break;
    case 4:
      read<int32_t>(array, &out);
      break;
    default:
      read<int64_t>(array, &out);
  }
  return out;
}

HostArray to_array(const Value& value, DType dtype) {
  if (value.has_floats()) {
    return convert(HostArray::f32(value.type.dims, value.floats), dtype);
  }
  HostArray out(Shape{dtype, value.type.dims});
  switch (byte_size(dtype)) {
    case 1:
      write<int8_t>(value, &out);
      break;
    case 2:
      write<int16_t>(value, &out);
      break;
    case 4:
      write<int32_t>(value, &out);
      break;
    default:
      write<int64_t>(value, &out);
  }
  return out;
}

}  // namespace kinema::interpreter
