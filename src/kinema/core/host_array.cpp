#include "kinema/core/host_array.h"

#include <cstdint>
#include <cstring>

#include "kinema/core/bf16.h"
#include "kinema/core/f8.h"

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
    case DType::F8E4M3FN:
      return f8e4m3fn_to_f32(static_cast<uint8_t>(*p));
    case DType::F8E5M2:
      return f8e5m2_to_f32(static_cast<uint8_t>(*p));
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
    case DType::F8E4M3FN:
      *p = static_cast<std::byte>(f32_to_f8e4m3fn(single));
      return;
    case DType::F8E5M2:
      *p = static_cast<std::byte>(f32_to_f8e5m2(single));
      return;
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

/// The common pairs as loops that the compiler can vectorise; neither side need be aligned.
template <typename From, typename To, typename F>
void each(std::span<const std::byte> from, std::span<std::byte> to, F f) {
  const size_t n = from.size() / sizeof(From);
  for (size_t i = 0; i < n; ++i) {
    From in;
    std::memcpy(&in, from.data() + i * sizeof(From), sizeof(From));
    const To out = f(in);
    std::memcpy(to.data() + i * sizeof(To), &out, sizeof(To));
  }
}

bool convert_common(std::span<const std::byte> from, DType from_dtype, std::span<std::byte> to,
                    DType to_dtype) {
  if (from_dtype == DType::F32 && to_dtype == DType::BF16) {
    each<float, uint16_t>(from, to, f32_to_bf16);
  } else if (from_dtype == DType::BF16 && to_dtype == DType::F32) {
    each<uint16_t, float>(from, to, bf16_to_f32);
  } else if (from_dtype == DType::F16 && to_dtype == DType::F32) {
    each<uint16_t, float>(from, to, f16_to_f32);
  } else if (from_dtype == DType::F16 && to_dtype == DType::BF16) {
    each<uint16_t, uint16_t>(from, to, [](uint16_t h) { return f32_to_bf16(f16_to_f32(h)); });
  } else if (from_dtype == DType::F32 && to_dtype == DType::F8E4M3FN) {
    each<float, uint8_t>(from, to, f32_to_f8e4m3fn);
  } else if (from_dtype == DType::F8E4M3FN && to_dtype == DType::F32) {
    each<uint8_t, float>(from, to, f8e4m3fn_to_f32);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void convert(std::span<const std::byte> from, DType from_dtype, std::span<std::byte> to,
             DType to_dtype) {
  const auto in_width = static_cast<size_t>(byte_size(from_dtype));
  const auto out_width = static_cast<size_t>(byte_size(to_dtype));
  const size_t n = from.size() / in_width;
  check(from.size() == n * in_width && to.size() == n * out_width,
        "[convert] {} bytes of {} do not fill {} bytes of {}", from.size(), to_string(from_dtype),
        to.size(), to_string(to_dtype));
  check((is_float(from_dtype) && is_float(to_dtype)) ||
            (is_integer(from_dtype) && is_integer(to_dtype)) || from_dtype == to_dtype,
        "[convert] {} cannot be converted to {} on the host", to_string(from_dtype),
        to_string(to_dtype));
  if (n == 0) {
    return;
  }
  if (from_dtype == to_dtype) {
    std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  if (convert_common(from, from_dtype, to, to_dtype)) {
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    const std::byte* source = from.data() + i * in_width;
    std::byte* target = to.data() + i * out_width;
    if (is_float(from_dtype)) {
      store_float(to_dtype, target, load_float(from_dtype, source));
    } else {
      const int64_t value = load_integer(from_dtype, source);
      std::memcpy(target, &value, out_width);
    }
  }
}

HostArray convert(const HostArray& x, DType dtype) {
  if (x.shape.dtype == dtype) {
    return x;
  }
  HostArray out(Shape{dtype, x.shape.dims});
  convert(x.bytes, x.shape.dtype, out.bytes, dtype);
  return out;
}

}  // namespace kinema
