#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/ops.h"
#include "graph/scan.h"
#include "models/wan/config.h"
#include "nn/params.h"

namespace kinema::wan {

/// How the network is computed; independent of the checkpoint.
struct ModelOptions {
  DType weights_dtype = DType::F32;
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Blocks as one loop over stacked parameters; else one after the other.
  bool scan_layers = true;
  RematPolicy remat = {};
  double dropout = 0.0;
};

struct TransformerInputs {
  Tensor hidden_states;          // [b, c_in, f, h, w], float
  Tensor timestep;               // [b], or [b, s] (TI2V: one per token); float or integer, 0..1000
  Tensor encoder_hidden_states;  // [b, t, text_dim]
  Tensor encoder_hidden_states_image = {};  // [b, n, image_dim], Wan 2.1 I2V only
  Tensor dropout_key = {};                  // u32[2]; needed when dropout > 0, else empty
  /// Called with intermediate values under the names of the reference cases' taps ("patch_embed",
  /// "temb", "block0.attn1", ...). With scan_layers only taps outside the blocks are offered.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// Every parameter of the network, in the order in which `transformer` wants its tensors.
std::vector<nn::ParamSpec> parameters(const TransformerConfig& config, const ModelOptions& options);

/// The predicted velocity (noise - data), [b, c_out, f, h, w] in activations_dtype.
///
/// `params` are tensors of the shapes of `parameters(config, options)`, in that order.
/// Source: diffusers WanTransformer3DModel; arXiv:2503.20314.
Tensor transformer(std::span<const Tensor> params, const TransformerConfig& config,
                   const ModelOptions& options, const TransformerInputs& inputs);

}  // namespace kinema::wan
