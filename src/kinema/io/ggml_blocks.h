#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Element types of GGUF files: floats, and blocks of integers that share scales. Layouts are those
/// of ggml's `ggml-common.h`.
namespace kinema::io {

/// The numbers that files have for them.
enum class GgmlType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30,
};

/// How values lie in bytes: so many in a block of so many bytes.
struct GgmlLayout {
  std::string_view name;
  int64_t values;
  int64_t bytes;
};

/// The layout of a type by its number in the file; null for one that is not read.
const GgmlLayout* ggml_layout(uint32_t type);

/// Writes the values of whole blocks. `bytes` are as many as the layout wants for `values`. Throws
/// an Error that begins with `what` for a block whose scale is no finite number.
void ggml_decode(GgmlType type, std::span<const std::byte> bytes, std::span<float> values,
                 std::string_view what = "values");

/// Throws what ggml_decode throws of whole blocks, having read their scales alone.
void ggml_check_scales(GgmlType type, std::span<const std::byte> bytes, std::string_view what);

/// Q8_0 blocks of values, a multiple of 32 of them, into 34 bytes each:
///
///   d = max |x| / 127 as f16,  q = x / d rounded, halves away from zero
///
/// Throws an Error that begins with `what` for values whose scale f16 does not reach.
void ggml_encode_q8_0(std::span<const float> values, std::span<std::byte> bytes,
                      std::string_view what = "values");

}  // namespace kinema::io
