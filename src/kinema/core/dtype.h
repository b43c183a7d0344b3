#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kinema {

/// Element types, named as StableHLO and safetensors name them.
enum class DType : uint8_t {
  PRED,
  S8,
  S16,
  S32,
  S64,
  U8,
  U16,
  U32,
  U64,
  F8E4M3FN,
  F8E5M2,
  F16,
  BF16,
  F32,
  F64
};

/// Bytes of one element.
int64_t byte_size(DType dtype);

/// True for F8E4M3FN, F8E5M2, F16, BF16, F32 and F64.
bool is_float(DType dtype);

/// True for the floating-point types of one byte, F8E4M3FN and F8E5M2.
bool is_f8(DType dtype);

/// True for the signed and unsigned integers (not PRED).
bool is_integer(DType dtype);

/// Short name for messages: `f32`, `bf16`, `f8e4m3fn`, `s64`, `pred`.
std::string_view to_string(DType dtype);

/// StableHLO element type: `f32`, `bf16`, `f8E4M3FN`, `i64`, `ui32`, `i1`.
std::string_view mlir_name(DType dtype);

/// Reads `f32`, `float32`, `bfloat16`, `bf16`, ...; nothing when the name is not known.
std::optional<DType> dtype_from_string(std::string_view name);

}  // namespace kinema
