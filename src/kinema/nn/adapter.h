#pragma once

#include <optional>
#include <string>

#include "kinema/graph/ops.h"
#include "kinema/nn/dropout.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// The sizes of LoKr's first factor for an axis of a weight: the two factors of `size` that LyCORIS
/// takes, the smaller first. `factor` bounds the smaller one, and is it where it divides `size`;
/// -1: the two nearest to each other.
std::pair<int64_t, int64_t> kronecker_sizes(int64_t size, int64_t factor);

/// The parameters of an adapter, and the change that it makes to the output of a weight W [out, in]
/// without being merged into it. s is `lora_scale`, a constant.
///
///   LORA   W x + up diag(s) down x
///   DORA   m / |V| (W x + s up down x),  V = W + s up down,  |V| of rows, without a gradient
///   LOHA   W x + s ((w1_a w1_b) * (w2_a w2_b)) x
///   LOKR   W x + s (w1 (x) w2) x
class LinearAdapter {
 public:
  /// Nothing if the layer has no adapter. The axes are those of the weight.
  static std::optional<LinearAdapter> open(const Params& params, int64_t in, int64_t out,
                                           const std::string& in_axis, const std::string& out_axis);
  /// The plain low-rank product of these factors.
  LinearAdapter(Tensor down, Tensor up, Tensor scale, Dropout dropout = {}, std::string place = {})
      : a_(down), b_(up), scale_(scale), dropout_(dropout), place_(std::move(place)) {}

  /// y [..., out] in `sums`, the dtype of accumulation, is the product of x [..., in] and `w`,
  /// which has a scale for each row if it holds codes.
  Tensor operator()(Tensor y, Tensor x, Tensor w, const std::optional<Tensor>& w_scale,
                    Precision precision) const;

 private:
  LinearAdapter() = default;

  Tensor low_rank(Tensor x, Precision precision, DType sums) const;
  Tensor norms(Tensor w, const std::optional<Tensor>& w_scale) const;
  Tensor hadamard(Tensor x, Precision precision, DType sums) const;
  Tensor kronecker(Tensor x, Precision precision, DType sums) const;

  AdapterForm form_;
  Tensor a_;         // LORA, DORA: down [r, in]; LOHA: w1_a [out, r]; LOKR: w1 [l, m]
  Tensor b_;         // up [out, r]; w1_b [r, in]; w2 [k, n] or w2_a [k, r]
  Tensor c_;         // DORA: m [out]; w2_a [out, r]; w2_b [r, n] or empty
  Tensor d_;         // w2_b [r, in]
  Tensor scale_;     // [r], of LOHA and LOKR [1]
  Dropout dropout_;  // of x, while the factors are trained
  std::string place_;
};

}  // namespace kinema::nn
