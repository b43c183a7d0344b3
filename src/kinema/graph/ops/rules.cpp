#include "kinema/graph/ops/rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "kinema/core/bf16.h"
#include "kinema/core/error.h"
#include "kinema/core/f8.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"

namespace kinema {

Shape same_as_first(const Node& node) { return node.shape(0); }

Shape same_float(const Node& node) {
  check(is_float(node.shape(0).dtype), "[{}] the operand is {}, a floating-point dtype is needed",
        node.op->name, to_string(node.shape(0)));
  return node.shape(0);
}

Shape same_signed(const Node& node) {
  const DType dtype = node.shape(0).dtype;
  const bool is_unsigned = dtype == DType::PRED || (dtype >= DType::U8 && dtype <= DType::U64);
  check(!is_unsigned, "[{}] the operand is {}, a signed dtype is needed", node.op->name,
        to_string(node.shape(0)));
  return node.shape(0);
}

Shape same_for_all(const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    check(node.shape(i) == node.shape(0), "[{}] operand {} is {} but operand 0 is {}",
          node.op->name, i, to_string(node.shape(i)), to_string(node.shape(0)));
  }
  return node.shape(0);
}

Dims broadcast_dims(const char* op, const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.dims.size(), b.dims.size());
  Dims out(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    // Aligned at the last axis; a missing axis has size 1.
    const int64_t x = i < a.dims.size() ? a.dims[a.dims.size() - 1 - i] : 1;
    const int64_t y = i < b.dims.size() ? b.dims[b.dims.size() - 1 - i] : 1;
    check(x == y || x == 1 || y == 1,
          "[{}] {} and {} do not broadcast: sizes {} and {} differ on axis {} from the end", op,
          to_string(a), to_string(b), x, y, i + 1);
    out[rank - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

void check_same_dtype(const char* op, const Shape& a, const Shape& b) {
  check(a.dtype == b.dtype, "[{}] the dtypes differ: {} and {}\n  `convert` one of them", op,
        to_string(a), to_string(b));
}

Tensor full_like(Tensor x, double value) { return constant(x.graph(), value, x.shape()); }

std::vector<int64_t> resolve_axes(const char* op, const Shape& shape, std::vector<int64_t> axes) {
  if (axes.empty()) {
    for (int64_t i = 0; i < shape.rank(); ++i) {
      axes.push_back(i);
    }
    return axes;
  }
  for (int64_t& axis : axes) {
    axis = resolve_axis(Axis(axis), shape, op);
  }
  std::ranges::sort(axes);
  check(std::ranges::adjacent_find(axes) == axes.end(), "[{}] an axis of {} is named twice: {}", op,
        to_string(shape), to_string(axes));
  return axes;
}

DType accumulation_dtype(DType dtype) {
  return byte_size(dtype) < 4 && is_float(dtype) ? DType::F32 : dtype;
}

std::string i64_array(const std::vector<int64_t>& values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string i64_list(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

namespace {

// `value` rounded to the dtype, and the bits of the result.
struct Rounded {
  double value;
  uint64_t bits;
};

Rounded round_to(double value, DType dtype) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::BF16: {
      const uint16_t bits = f32_to_bf16(single);
      return {bf16_to_f32(bits), bits};
    }
    case DType::F16: {
      const uint16_t bits = f32_to_f16(single);
      return {f16_to_f32(bits), bits};
    }
    case DType::F8E4M3FN: {
      const uint8_t bits = f32_to_f8e4m3fn(single);
      return {f8e4m3fn_to_f32(bits), bits};
    }
    case DType::F8E5M2: {
      const uint8_t bits = f32_to_f8e5m2(single);
      return {f8e5m2_to_f32(bits), bits};
    }
    case DType::F32:
      return {single, std::bit_cast<uint32_t>(single)};
    default:
      return {value, std::bit_cast<uint64_t>(value)};
  }
}

}  // namespace

std::string mlir_literal(double value, DType dtype) {
  if (dtype == DType::PRED) {
    return value != 0.0 ? "true" : "false";
  }
  if (is_integer(dtype)) {
    // 2^bits values, half of them negative if signed; -inf, inf and NaN fail too.
    const int bits = static_cast<int>(8 * byte_size(dtype));
    const bool is_signed = dtype >= DType::S8 && dtype <= DType::S64;
    const double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
    const double high = std::ldexp(1.0, is_signed ? bits - 1 : bits);
    check(value >= low && value < high && value == std::trunc(value),
          "[constant] {} is not a value of {}", value, to_string(dtype));
    return value < 0 ? fmt::format("{}", static_cast<int64_t>(value))
                     : fmt::format("{}", static_cast<uint64_t>(value));
  }
  const Rounded rounded = round_to(value, dtype);
  // Short decimals if they read back exactly, otherwise bit patterns.
  std::string text = fmt::format("{:e}", rounded.value);
  if (std::isfinite(rounded.value) && std::strtod(text.c_str(), nullptr) == rounded.value) {
    return text;
  }
  return fmt::format("0x{:0{}X}", rounded.bits, 2 * byte_size(dtype));
}

Tensor result_of(const Node& node) {
  // A Tensor is a mutable handle; the emitter only uses it as a key.
  return Tensor(const_cast<Node*>(&node), 0);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

std::string emit_splat(Emitter& out, const Node& node, const std::string& literal,
                       const Shape& shape) {
  std::string name = out.fresh();
  const std::string type = mlir_type(shape);
  out.line("{} = \"stablehlo.constant\"() {{value = dense<{}> : {}}} : () -> {}{}", name, literal,
           type, type, out.location(node));
  return name;
}

}  // namespace kinema
