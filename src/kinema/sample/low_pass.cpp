#include "kinema/sample/low_pass.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kinema/graph/ops.h"

namespace kinema::sample {
namespace {

/// The projection of n points onto the frequencies |k| < cut: p[i, j] is the mean over all n
/// frequencies of [k is low] cos(2 pi k (i - j) / n).
Tensor projection(Graph& graph, int64_t n, int64_t cut) {
  std::vector<float> by_distance;
  for (int64_t d = 0; d < n; ++d) {
    double sum = 1.0;
    for (int64_t k = 1; k < cut; ++k) {  // k and n - k together
      sum += 2.0 * std::cos(2.0 * std::numbers::pi * static_cast<double>(k * d % n) /
                            static_cast<double>(n));
    }
    by_distance.push_back(static_cast<float>(sum / static_cast<double>(n)));
  }
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      values.push_back(by_distance[static_cast<size_t>(std::abs(i - j))]);
    }
  }
  return constant_f32(graph, {n, n}, values);
}

}  // namespace

Tensor low_frequencies(Tensor x) {
  const Dims dims = x.shape().dims;
  const int64_t h = dims[dims.size() - 2];
  const int64_t w = dims.back();
  Graph& graph = x.graph();
  const Tensor rows = projection(graph, h, std::max<int64_t>(1, h / 4));
  const Tensor columns = projection(graph, w, std::max<int64_t>(1, (w / 2 + 1) / 4));
  const Tensor planes = reshape(x, {-1, h, w});
  const Tensor smooth = einsum("phw,wv->phv", planes, columns, Precision::HIGHEST);
  return reshape(einsum("gh,phv->pgv", rows, smooth, Precision::HIGHEST), dims);
}

}  // namespace kinema::sample
