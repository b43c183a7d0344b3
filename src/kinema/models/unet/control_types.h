#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kinema/models/unet/controlnet.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/embedding.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::unet {

/// What a union ControlNet has for its kinds of pictures (edges, depth, poses ...): an embedding of
/// the kinds that are given, and layers that decide how much of each picture is added.
class ControlTypes {
 public:
  ControlTypes(const nn::Params& root, const ControlNetConfig& config);

  /// Added to the timestep's embedding: which kinds are given. f32 [1, time_dim].
  Tensor embed(std::span<const int64_t> types, Graph& graph, Precision precision) const;
  /// The sum of the pictures' maps, [b, c, h, w] each, with a shift of their channels. Several maps
  /// are multiplied by `scale` [number of maps]. `x` is the first convolution's result.
  Tensor fuse(std::span<const Tensor> maps, std::span<const int64_t> types, Tensor scale, Tensor x,
              Precision precision) const;

 private:
  /// One layer on a picture's mean features [b, d]:
  ///
  ///   x += out(values(norm_1(x)));  x += project(quick_gelu(expand(norm_2(x))))
  ///
  /// Its attention is over one position, so that of queries, keys and values the last matter.
  struct Layer {
    Layer(const nn::Params& params, int64_t dim);
    Tensor operator()(Tensor x, Precision precision) const;

    int64_t dim;
    nn::LayerNorm norm_1;
    Tensor in_weight;  // [3 d, d]: queries, keys, values
    Tensor in_bias;
    nn::Linear out;
    nn::LayerNorm norm_2;
    nn::Linear expand;
    nn::Linear project;
  };

  int64_t count_;
  int64_t embed_dim_;
  Tensor task_embedding_;  // [kinds, d]
  std::vector<Layer> layers_;
  nn::Linear shift_;
  nn::EmbeddingMlp embedding_;
};

}  // namespace kinema::unet
