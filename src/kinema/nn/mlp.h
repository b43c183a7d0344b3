#pragma once

#include <string>
#include <vector>

#include "kinema/nn/activation.h"
#include "kinema/nn/dense.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {

/// A linear layer, a norm and an activation, in this order.
class DenseBlock {
 public:
  struct How {
    Activation activation = Activation::SILU;
    ScaleNorm::How norm = {};
  };
  /// The linear layer's parameters and the norm's are stored under two adjacent names.
  DenseBlock(const Params& linear, const Params& norm, int64_t in, int64_t out, const How& how)
      : dense(linear, in, out), norm_(norm, out, how.norm), activation_(how.activation) {}

  Tensor operator()(Tensor x, Precision precision) const { return activated(dense(x, precision)); }
  /// What follows the linear layer.
  Tensor activated(Tensor y) const { return activate(activation_, norm_(y)); }

  Dense dense;

 private:
  ScaleNorm norm_;
  Activation activation_;
};

/// Blocks in a row, `linear0`, `norm0`, `linear1` and so on.
class Mlp {
 public:
  Mlp(const Params& params, int64_t in, int64_t units, int64_t layers, const DenseBlock::How& how) {
    for (int64_t i = 0; i < layers; ++i) {
      const std::string number = std::to_string(i);
      blocks_.emplace_back(params / ("linear" + number), params / ("norm" + number),
                           i == 0 ? in : units, units, how);
    }
  }

  /// [..., in] -> [..., units].
  Tensor operator()(Tensor x, Precision precision) const {
    for (const DenseBlock& block : blocks_) {
      x = block(x, precision);
    }
    return x;
  }

 private:
  std::vector<DenseBlock> blocks_;
};

}  // namespace kinema::nn
