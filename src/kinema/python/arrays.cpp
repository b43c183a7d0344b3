#include "kinema/python/arrays.h"

#include <array>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::python {
namespace {

struct Element {
  DType dtype;
  nb::dlpack::dtype python;
};

nb::dlpack::dtype dlpack_type(nb::dlpack::dtype_code code, int bits) {
  return {.code = static_cast<uint8_t>(code), .bits = static_cast<uint8_t>(bits), .lanes = 1};
}

const std::array<Element, 12>& elements() {
  using Code = nb::dlpack::dtype_code;
  static const std::array<Element, 12> table{{{DType::PRED, dlpack_type(Code::Bool, 8)},
                                              {DType::S8, dlpack_type(Code::Int, 8)},
                                              {DType::S16, dlpack_type(Code::Int, 16)},
                                              {DType::S32, dlpack_type(Code::Int, 32)},
                                              {DType::S64, dlpack_type(Code::Int, 64)},
                                              {DType::U8, dlpack_type(Code::UInt, 8)},
                                              {DType::U16, dlpack_type(Code::UInt, 16)},
                                              {DType::U32, dlpack_type(Code::UInt, 32)},
                                              {DType::U64, dlpack_type(Code::UInt, 64)},
                                              {DType::F16, dlpack_type(Code::Float, 16)},
                                              {DType::F32, dlpack_type(Code::Float, 32)},
                                              {DType::F64, dlpack_type(Code::Float, 64)}}};
  return table;
}

}  // namespace

nb::object to_numpy(HostArray array) {
  if (is_f8(array.shape.dtype) || array.shape.dtype == DType::BF16) {
    array = convert(array, DType::F32);
  }
  const DType dtype = array.shape.dtype;
  const auto known =
      std::ranges::find_if(elements(), [&](const Element& each) { return each.dtype == dtype; });
  check(known != elements().end(), "[python] numpy has no {}", to_string(dtype));
  auto* const kept = new HostArray(std::move(array));
  const nb::capsule owner(kept, [](void* old) noexcept { delete static_cast<HostArray*>(old); });
  const std::vector<size_t> dims(kept->shape.dims.begin(), kept->shape.dims.end());
  return nb::cast(nb::ndarray<nb::numpy>(kept->bytes.data(), dims.size(), dims.data(), owner,
                                         nullptr, known->python));
}

Shape shape_of(const GivenArray& array) {
  const nb::dlpack::dtype given = array.dtype();
  const auto known =
      std::ranges::find_if(elements(), [&](const Element& each) { return each.python == given; });
  const bool is_bfloat16 =
      given.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat) && given.bits == 16;
  check(known != elements().end() || is_bfloat16,
        "[python] an array has elements of a type that kinema lacks (DLPack code {}, {} bits)\n  "
        "convert it to float32",
        given.code, given.bits);
  Shape out{is_bfloat16 ? DType::BF16 : known->dtype, {}};
  for (size_t i = 0; i < array.ndim(); ++i) {
    out.dims.push_back(static_cast<int64_t>(array.shape(i)));
  }
  return out;
}

std::span<const std::byte> bytes_of(const GivenArray& array) {
  return {static_cast<const std::byte*>(array.data()), array.nbytes()};
}

}  // namespace kinema::python
