#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
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

/// How parameters start when training from scratch; the defaults are official Wan's.
struct InitOptions {
  /// Added to both gates of every block's scale_shift_table: above zero, the blocks contribute from
  /// the first step (small models learn sooner so).
  double gate_bias = 0.0;
  enum class Text { NORMAL, XAVIER };
  /// The text embedding's linears: N(0, 0.02), or Xavier-uniform.
  Text text = Text::NORMAL;
};

/// Every parameter of the network, in the order in which `transformer` wants its tensors. Nothing
/// is allocated. Throws what `validate` throws.
std::vector<nn::ParamSpec> parameters(const TransformerConfig& config, const ModelOptions& options,
                                      const InitOptions& init = {});

/// What a checkpoint key is stored in: F32 for norms, condition embedder and modulation tables
/// (keys containing `norm`, `condition_embedder` or `scale_shift_table`), otherwise
/// `weights_dtype`.
DType parameter_dtype(std::string_view key, DType weights_dtype);

/// The predicted velocity (noise - data), [b, c_out, f, h, w] in activations_dtype.
///
/// `params` are tensors of the shapes of `parameters(config, options)`, in that order.
/// Source: diffusers WanTransformer3DModel; arXiv:2503.20314.
Tensor transformer(std::span<const Tensor> params, const TransformerConfig& config,
                   const ModelOptions& options, const TransformerInputs& inputs);

}  // namespace kinema::wan
