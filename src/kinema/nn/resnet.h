#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kinema/nn/conv.h"
#include "kinema/nn/linear.h"

namespace kinema::nn {

/// conv(silu(norm(conv(silu(norm(x))) + time))) + x: the residual block of UNets and of their
/// autoencoders. The last x goes through a 1 x 1 convolution if the number of channels changes.
class ResnetBlock {
 public:
  struct Options {
    int64_t groups = 32;
    double eps = 1e-5;
    int64_t time_dim = 0;        // 0: no timestep embedding
    Init last = Init::xavier();  // of the second convolution
  };
  /// Called with "norm1" and "time_emb_proj".
  using Tap = std::function<void(const std::string& name, Tensor value)>;

  ResnetBlock(const Params& params, int64_t in, int64_t out, const Options& options);

  /// x [b, in, h, w], temb [b, time_dim] after SiLU, in x's dtype, or empty -> [b, out, h, w].
  Tensor operator()(Tensor x, Tensor temb, Precision precision, const Tap& tap = {}) const;

 private:
  GroupNorm norm1_;
  Conv2d conv1_;
  std::optional<Linear> time_;
  GroupNorm norm2_;
  Conv2d conv2_;
  std::optional<Conv2d> shortcut_;
};

}  // namespace kinema::nn
