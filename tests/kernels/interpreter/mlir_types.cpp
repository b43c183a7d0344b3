#include "kernels/interpreter/mlir_types.h"

#include <fmt/format.h>

#include "kinema/core/error.h"

namespace kinema::interpreter {

bool is_float(Element element) { return element >= Element::F16; }

std::string_view to_string(Element element) {
  constexpr std::string_view kNames[] = {"i1",    "i8",  "i16",  "i32", "i64",
                                         "index", "f16", "bf16", "f32"};
  return kNames[static_cast<size_t>(element)];
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::PRED:
      return Element::I1;
    case DType::S8:
      return Element::I8;
    case DType::S16:
      return Element::I16;
    case DType::S32:
      return Element::I32;
    case DType::S64:
      return Element::I64;
    case DType::F16:
      return Element::F16;
    case DType::BF16:
      return Element::BF16;
    case DType::F32:
      return Element::F32;
    default:
      fail("[interpreter] arrays of {} are not covered", to_string(dtype));
  }
}

int width(Element element) {
  constexpr int kBits[] = {1, 8, 16, 32, 64, 64, 16, 16, 32};
  return kBits[static_cast<size_t>(element)];
}

int64_t Type::elements() const {
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  return count;
}

std::string to_string(const Type& type) {
  const std::string element = type.pointer ? fmt::format("!tt.ptr<{}>", to_string(type.element))
                                           : std::string(to_string(type.element));
  if (type.kind == Type::Kind::SCALAR) return element;
  std::string sizes;
  for (const int64_t size : type.dims) sizes += fmt::format("{}x", size);
  switch (type.kind) {
    case Type::Kind::VECTOR:
      return fmt::format("vector<{}{}>", sizes, element);
    case Type::Kind::MEMREF:
      return fmt::format("memref<{}{}, {}>", sizes, element, type.memory_space);
    default:
      return fmt::format("tensor<{}{}>", sizes, element);
  }
}

std::string to_string(const std::vector<Type>& types) {
  std::string out = "(";
  for (const Type& type : types) out += (out.size() > 1 ? ", " : "") + to_string(type);
  return out + ")";
}

}  // namespace kinema::interpreter
