#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Element types of GGUF files: floats, and blocks of integers that share scales. Layouts are those
/// of ggml's `ggml-common.h`.
namespace kinema::io {

/// Their numbers in files.
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
  IQ4_NL = 20,
  IQ4_XS = 23,
  BF16 = 30,
};

/// The layout of values: `values` per block of `bytes` bytes.
struct GgmlLayout {
  std::string_view name;
  int64_t values;
  int64_t bytes;
};

/// The layout of a type by its number in the file; null for an unsupported one.
const GgmlLayout* ggml_layout(uint32_t type);

/// Decodes whole blocks; `bytes` must match the number of `values`. Throws an Error that starts
/// with `what` for a block whose scale is not finite.
void ggml_decode(GgmlType type, std::span<const std::byte> bytes, std::span<float> values,
                 std::string_view what = "values");

/// Throws the Errors of ggml_decode, but reads the scales only.
void ggml_check_scales(GgmlType type, std::span<const std::byte> bytes, std::string_view what);

/// Encodes values, a multiple of 32, as Q8_0 blocks of 34 bytes each:
///
///   d = max |x| / 127 as f16,  q = x / d rounded, halves away from zero
///
/// Throws an Error that starts with `what` for values whose scale exceeds f16.
void ggml_encode_q8_0(std::span<const float> values, std::span<std::byte> bytes,
                      std::string_view what = "values");

}  // namespace kinema::io
