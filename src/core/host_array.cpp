#include "core/host_array.h"

#include <cstdint>

#include "core/bf16.h"

namespace kinema {
namespace {

template <typename T>
double load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return static_cast<double>(value);
}

double load_float(DType dtype, const std::byte* p) {
  uint16_t half = 0;
  switch (dtype) {
    case DType::F64:
      return load<double>(p);
    case DType::F32:
      return load<float>(p);
    case DType::BF16:
      std::memcpy(&half, p, 2);
      return bf16_to_f32(half);
    default:
      std::memcpy(&half, p, 2);
      return f16_to_f32(half);
  }
}

void store_float(DType dtype, std::byte* p, double value) {
  const auto single = static_cast<float>(value);
  uint16_t half = 0;
  switch (dtype) {
    case DType::F64:
      std::memcpy(p, &value, 8);
      return;
    case DType::F32:
      std::memcpy(p, &single, 4);
      return;
    case DType::BF16:
      half = f32_to_bf16(single);
      break;
    default:
      half = f32_to_f16(single);
  }
  std::memcpy(p, &half, 2);
}

int64_t load_integer(DType dtype, const std::byte* p) {
  const int64_t width = byte_size(dtype);
  uint64_t raw = 0;
  std::memcpy(&raw, p, static_cast<size_t>(width));
  const bool is_signed = dtype >= DType::S8 && dtype <= DType::S64;
  const int64_t shift = 64 - 8 * width;
  return is_signed ? static_cast<int64_t>(raw << shift) >> shift : static_cast<int64_t>(raw);
}

}  // namespace

HostArray convert(const HostArray& x, DType dtype) {
  const DType from = x.shape.dtype;
  if (from == dtype) {
    return x;
  }
  HostArray out(Shape{dtype, x.shape.dims});
  const int64_t n = x.shape.elements();
  const int64_t in_width = byte_size(from);
  const int64_t out_width = byte_size(dtype);
  check((is_float(from) && is_float(dtype)) || (is_integer(from) && is_integer(dtype)),
        "[convert] {} cannot become {} on the host", to_string(x.shape), to_string(dtype));
  for (int64_t i = 0; i < n; ++i) {
    const std::byte* source = x.bytes.data() + i * in_width;
    std::byte* target = out.bytes.data() + i * out_width;
    if (is_float(from)) {
      store_float(dtype, target, load_float(from, source));
    } else {
      const int64_t value = load_integer(from, source);
      std::memcpy(target, &value, static_cast<size_t>(out_width));
    }
  }
  return out;
}

}  // namespace kinema
