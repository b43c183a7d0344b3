#pragma once

#include <optional>

#include "kinema/core/dtype.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"
#include "kinema/mesh/placement.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// How a network is computed; independent of the checkpoint and of the model family.
struct ModelOptions {
  DType weights_dtype = DType::F32;
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Blocks run as one loop over stacked parameters; if false, one after the other.
  bool scan_layers = true;
  RematPolicy remat = {};
  double dropout = 0.0;
  /// Kind and settings; the model sets scale, precision and axes.
  AttentionOptions attention = {};
  /// The sharding over a mesh; without a mesh nothing is annotated.
  mesh::Placement place = {};
  /// Ranks of the adapters that linear layers apply, not merged into their weights.
  LowRanks low_ranks = {};
  /// Dropout rate of the adapters' inputs during training.
  double low_rank_dropout = 0.0;
  /// Blocks' linear weights are stored as codes (S8, F8E4M3FN) with one scale per output, quantized
  /// when they are loaded; such weights are not trained.
  std::optional<DType> weights_storage = {};
  /// Memory of the scanned blocks' matrices, except adapters: all other weights are small. Weights
  /// in host memory are not trained.
  Memory weights_memory = Memory::DEVICE;
  /// Number, from 1, of the frame axis' rotary frequency that RIFLEx lowers (nn/rope.h); 0: none.
  int64_t riflex_frequency = 0;
  /// Products of quantized codes instead of floats.
  Quantization quantization = {};
  bool operator==(const ModelOptions&) const = default;
};

/// How parameters start when training from scratch; the defaults are the model's own.
struct InitOptions {
  /// Added to the gates of every block: above zero, blocks contribute from the first step, and
  /// small models learn faster.
  double gate_bias = 0.0;
  enum class Text { NORMAL, XAVIER };
  /// Initialisation of the text embedding's linear layers: N(0, 0.02), or Xavier-uniform.
  Text text = Text::NORMAL;
};

}  // namespace kinema::nn
