#include "kinema/pjrt/element_type.h"

#include <utility>

namespace kinema::pjrt {
namespace {

constexpr std::pair<DType, PJRT_Buffer_Type> kTypes[] = {
    {DType::PRED, PJRT_Buffer_Type_PRED},     {DType::S8, PJRT_Buffer_Type_S8},
    {DType::S16, PJRT_Buffer_Type_S16},       {DType::S32, PJRT_Buffer_Type_S32},
    {DType::S64, PJRT_Buffer_Type_S64},       {DType::U8, PJRT_Buffer_Type_U8},
    {DType::U16, PJRT_Buffer_Type_U16},       {DType::U32, PJRT_Buffer_Type_U32},
    {DType::U64, PJRT_Buffer_Type_U64},       {DType::F16, PJRT_Buffer_Type_F16},
    {DType::BF16, PJRT_Buffer_Type_BF16},     {DType::F32, PJRT_Buffer_Type_F32},
    {DType::F64, PJRT_Buffer_Type_F64},       {DType::F8E4M3FN, PJRT_Buffer_Type_F8E4M3FN},
    {DType::F8E5M2, PJRT_Buffer_Type_F8E5M2},
};

}  // namespace

PJRT_Buffer_Type to_pjrt(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  fail("[pjrt] no element type for {}", to_string(dtype));
}

DType from_pjrt(PJRT_Buffer_Type type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  fail("[pjrt] a buffer has PJRT element type {}, which kinema does not use",
       static_cast<int>(type));
}

}  // namespace kinema::pjrt
