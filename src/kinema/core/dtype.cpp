#include "kinema/core/dtype.h"

#include <array>

namespace kinema {
namespace {

struct Names {
  DType dtype;
  int64_t bytes;
  std::string_view shortname;
  std::string_view mlir;
  std::string_view longname;
};

constexpr std::array<Names, 15> kNames{{
    {DType::PRED, 1, "pred", "i1", "bool"},
    {DType::S8, 1, "s8", "i8", "int8"},
    {DType::S16, 2, "s16", "i16", "int16"},
    {DType::S32, 4, "s32", "i32", "int32"},
    {DType::S64, 8, "s64", "i64", "int64"},
    {DType::U8, 1, "u8", "ui8", "uint8"},
    {DType::U16, 2, "u16", "ui16", "uint16"},
    {DType::U32, 4, "u32", "ui32", "uint32"},
    {DType::U64, 8, "u64", "ui64", "uint64"},
    {DType::F8E4M3FN, 1, "f8e4m3fn", "f8E4M3FN", "float8_e4m3fn"},
    {DType::F8E5M2, 1, "f8e5m2", "f8E5M2", "float8_e5m2"},
    {DType::F16, 2, "f16", "f16", "float16"},
    {DType::BF16, 2, "bf16", "bf16", "bfloat16"},
    {DType::F32, 4, "f32", "f32", "float32"},
    {DType::F64, 8, "f64", "f64", "float64"},
}};

const Names& names(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t byte_size(DType dtype) { return names(dtype).bytes; }

bool is_float(DType dtype) { return dtype >= DType::F8E4M3FN; }

bool is_f8(DType dtype) { return dtype == DType::F8E4M3FN || dtype == DType::F8E5M2; }

bool is_integer(DType dtype) { return dtype > DType::PRED && dtype < DType::F8E4M3FN; }

std::string_view to_string(DType dtype) { return names(dtype).shortname; }

std::string_view mlir_name(DType dtype) { return names(dtype).mlir; }

std::optional<DType> dtype_from_string(std::string_view name) {
  for (const Names& row : kNames) {
    if (name == row.shortname || name == row.longname || name == row.mlir) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace kinema
