#include "kinema/core/shape.h"

#include <fmt/ranges.h>

#include "kinema/core/error.h"

namespace kinema {

int64_t Shape::elements() const {
  int64_t n = 1;
  for (const int64_t d : dims) {
    n *= d;
  }
  return n;
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

std::string to_string(const Shape& shape) {
  return fmt::format("{}{}", to_string(shape.dtype), to_string(shape.dims));
}

std::string mlir_type(const Shape& shape) {
  std::string out = "tensor<";
  for (const int64_t d : shape.dims) {
    out += std::to_string(d);
    out += 'x';
  }
  out += mlir_name(shape.dtype);
  out += '>';
  return out;
}

int64_t resolve_axis(Axis axis, const Shape& shape, const char* op) {
  const int64_t rank = shape.rank();
  const int64_t i = axis.index < 0 ? axis.index + rank : axis.index;
  check(i >= 0 && i < rank, "[{}] axis {} is outside {}, which has {} axes", op, axis.index,
        to_string(shape), rank);
  return i;
}

int64_t checked_elements(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) {
    check(d >= 0 && !__builtin_mul_overflow(n, d, &n),
          "[shape] the sizes {} are negative or their product is too large", to_string(dims));
  }
  return n;
}

}  // namespace kinema
