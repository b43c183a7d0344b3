#include "kinema/nn/orthogonal.h"

#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::nn {
namespace {

/// The unit vector v [m, 1] whose reflection I - 2 v v^T takes x [m, 1] to a multiple of the first
/// axis. Zero, so that nothing is reflected, if x is zero.
Tensor reflector(Tensor x) {
  const Tensor pivot = slice(x, Axis(0), 0, 1);
  const Tensor length = sqrt(sum(square(x), {}, true));
  const Tensor away = select(compare(pivot, Comparison::LT, 0.0), -length, length);
  const Tensor first = pivot + away;
  const Tensor v =
      x.dim(0) == 1 ? first : concatenate({first, slice(x, Axis(0), 1, x.dim(0) - 1)}, Axis(0));
  constexpr double kTiny = 1e-30;  // above the smallest normal f32
  return v * rsqrt(maximum(sum(square(v), {}, true), kTiny));
}

/// (I - 2 v v^T) y.
Tensor reflected(Tensor v, Tensor y) {
  const Tensor along = matmul(transpose(v, {1, 0}), y, Precision::HIGHEST);
  return y - matmul(2.0 * v, along, Precision::HIGHEST);
}

}  // namespace

Tensor orthogonal_columns(Tensor a) {
  check(a.rank() == 2 && a.dim(1) > 0 && a.dim(1) <= a.dim(0) &&
            (a.dtype() == DType::F32 || a.dtype() == DType::F64),
        "[qr] the matrix is {} but must be f32 or f64 [m, n] with n <= m", to_string(a.shape()));
  const int64_t m = a.dim(0);
  const int64_t n = a.dim(1);
  std::vector<Tensor> reflectors;
  Tensor rest = a;  // rows and columns that are not yet triangular
  for (int64_t k = 0; k < n && k < m - 1; ++k) {
    const Tensor v = reflector(slice(rest, Axis(1), 0, 1));
    reflectors.push_back(v);
    if (k + 1 < n) {
      const Tensor next = reflected(v, slice(rest, Axis(1), 1, n - k - 1));
      rest = slice(next, Axis(0), 1, m - k - 1);
    }
  }
  // The reflections, the last one first, of the first n columns of the unit matrix.
  const Dims dims{m, n};
  const Tensor row = iota(a.graph(), {DType::S32, dims}, Axis(0));
  const Tensor column = iota(a.graph(), {DType::S32, dims}, Axis(1));
  Tensor q = convert(compare(row, Comparison::EQ, column), a.dtype());
  for (auto k = static_cast<int64_t>(reflectors.size()) - 1; k >= 0; --k) {
    const Tensor below = reflected(reflectors[static_cast<size_t>(k)], slice(q, Axis(0), k, m - k));
    q = k == 0 ? below : concatenate({slice(q, Axis(0), 0, k), below}, Axis(0));
  }
  return q;
}

}  // namespace kinema::nn
