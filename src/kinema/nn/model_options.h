#pragma once

#include <optional>

#include "kinema/core/dtype.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"
#include "kinema/mesh/placement.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// How a network is computed; independent of the checkpoint and of the family it is of.
struct ModelOptions {
  DType weights_dtype = DType::F32;
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Blocks as one loop over stacked parameters; else one after the other.
  bool scan_layers = true;
  RematPolicy remat = {};
  double dropout = 0.0;
  /// Kind and settings; scale, precision and axes are the model's own.
  AttentionOptions attention = {};
  /// Which devices of a mesh hold what; without one nothing is said of it.
  mesh::Placement place = {};
  /// Linear layers to which adapters add something of low rank, kept apart from their weights.
  LowRanks low_ranks = {};
  /// Of the inputs of these additions, while they are trained.
  double low_rank_dropout = 0.0;
  /// Blocks' linear weights as codes (S8, F8E4M3FN) with a scale an output, made where they are
  /// loaded; such weights are not trained.
  std::optional<DType> weights_storage = {};
  /// Where the matrices of scanned blocks wait, those of low-rank additions excepted: all else is
  /// small. Such weights are not trained.
  Memory weights_memory = Memory::DEVICE;
  /// Products of narrow codes in place of floats.
  Quantization quantization = {};
  bool operator==(const ModelOptions&) const = default;
};

/// How parameters start when training from scratch; the defaults are the model's own.
struct InitOptions {
  /// Added to the gates of every block: above zero, the blocks contribute from the first step
  /// (small models learn sooner so).
  double gate_bias = 0.0;
  enum class Text { NORMAL, XAVIER };
  /// The text embedding's linears: N(0, 0.02), or Xavier-uniform.
  Text text = Text::NORMAL;
};

}  // namespace kinema::nn
