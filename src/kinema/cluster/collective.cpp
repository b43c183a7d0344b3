#include "kinema/cluster/collective.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kinema/core/error.h"

namespace kinema::cluster {
namespace {

using Operand = pjrt::CollectiveCall::Operand;

template <typename T, typename Op>
void combine(std::span<std::byte> sum, Bytes other, const Op& op) {
  const size_t count = sum.size() / sizeof(T);
  T* const a = reinterpret_cast<T*>(sum.data());
  const T* const b = reinterpret_cast<const T*>(other.data());
  for (size_t i = 0; i < count; ++i) {
    a[i] = op(a[i], b[i]);
  }
}

// A maximum or minimum with a NaN is NaN, as in XLA.
template <typename T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
  }
  return std::max(a, b);
}
template <typename T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
  }
  return std::min(a, b);
}

/// True if the operation is supported for the type.
template <typename T>
bool reduce_as(std::span<std::byte> sum, Bytes other, const std::string& reduction) {
  if (reduction == "add") {
    combine<T>(sum, other, [](T a, T b) { return static_cast<T>(a + b); });
  } else if (reduction == "multiply") {
    combine<T>(sum, other, [](T a, T b) { return static_cast<T>(a * b); });
  } else if (reduction == "maximum") {
    combine<T>(sum, other, larger<T>);
  } else if (reduction == "minimum") {
    combine<T>(sum, other, smaller<T>);
  } else if constexpr (std::is_integral_v<T>) {
    if (reduction == "and") {
      combine<T>(sum, other, [](T a, T b) { return static_cast<T>(a & b); });
    } else if (reduction == "or") {
      combine<T>(sum, other, [](T a, T b) { return static_cast<T>(a | b); });
    } else {
      return false;
    }
  } else {
    return false;
  }
  return true;
}

bool reduce_typed(std::span<std::byte> sum, Bytes other, DType dtype,
                  const std::string& reduction) {
  switch (dtype) {
    case DType::F32:
      return reduce_as<float>(sum, other, reduction);
    case DType::F64:
      return reduce_as<double>(sum, other, reduction);
    case DType::S32:
      return reduce_as<int32_t>(sum, other, reduction);
    case DType::S64:
      return reduce_as<int64_t>(sum, other, reduction);
    case DType::U32:
      return reduce_as<uint32_t>(sum, other, reduction);
    case DType::U64:
      return reduce_as<uint64_t>(sum, other, reduction);
    case DType::PRED:
    case DType::U8:
      return reduce_as<uint8_t>(sum, other, reduction);
    case DType::S8:
      return reduce_as<int8_t>(sum, other, reduction);
    case DType::S16:
      return reduce_as<int16_t>(sum, other, reduction);
    case DType::U16:
      return reduce_as<uint16_t>(sum, other, reduction);
    default:
      return false;  // XLA's CPU compiler widens 16-bit reductions
  }
}

/// The division of an operand into `pieces` along its axis: `rows` of them, `bytes` each.
struct Cut {
  size_t rows = 1;
  size_t bytes = 0;

  Cut(size_t whole, const Operand& operand, size_t pieces) {
    for (size_t d = 0; d < operand.axis; ++d) {
      rows *= static_cast<size_t>(operand.dims[d]);
    }
    rows = std::max<size_t>(rows, 1);
    bytes = whole / rows / pieces;
  }
};

void check_size(size_t given, size_t wanted) {
  check(given == wanted, "[cluster] a collective's result has {} bytes, {} were expected", given,
        wanted);
}

}  // namespace

void reduce_into(std::span<std::byte> sum, Bytes other, DType dtype, const std::string& reduction) {
  check_size(other.size(), sum.size());
  check(reduce_typed(sum, other, dtype, reduction),
        "[cluster] there is no reduction `{}` of {} across processes", reduction, to_string(dtype));
}

void all_gather(const Parts& parts, const Operand& operand, std::span<std::byte> result) {
  const Cut cut(parts.front().size(), operand, 1);
  check_size(result.size(), parts.front().size() * parts.size());
  std::byte* to = result.data();
  for (size_t row = 0; row < cut.rows; ++row) {
    for (const Bytes& part : parts) {
      std::memcpy(to, part.data() + row * cut.bytes, cut.bytes);
      to += cut.bytes;
    }
  }
}

void all_to_all(const Parts& parts, const Operand& operand, size_t member,
                std::span<std::byte> result) {
  const Cut cut(parts.front().size(), operand, parts.size());
  check_size(result.size(), parts.front().size());
  std::byte* to = result.data();
  for (size_t row = 0; row < cut.rows; ++row) {
    for (const Bytes& part : parts) {
      std::memcpy(to, part.data() + (row * parts.size() + member) * cut.bytes, cut.bytes);
      to += cut.bytes;
    }
  }
}

void take_piece(Bytes whole, const Operand& operand, size_t pieces, size_t member,
                std::span<std::byte> result) {
  const Cut cut(whole.size(), operand, pieces);
  check_size(result.size(), whole.size() / pieces);
  std::byte* to = result.data();
  for (size_t row = 0; row < cut.rows; ++row) {
    std::memcpy(to, whole.data() + (row * pieces + member) * cut.bytes, cut.bytes);
    to += cut.bytes;
  }
}

}  // namespace kinema::cluster
