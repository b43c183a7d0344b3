#include "kinema/models/unet/control_types.h"

#include <algorithm>
#include <string>

namespace kinema::unet {
namespace {

constexpr double kEpsilon = 1e-5;

}  // namespace

ControlTypes::Layer::Layer(const nn::Params& params, int64_t d)
    : dim(d),
      norm_1(params / "ln_1", d, kEpsilon),
      in_weight(
          (params / "attn").weight("in_proj_weight", {3 * d, d}, {"", ""}, nn::Init::xavier())),
      in_bias((params / "attn").weight("in_proj_bias", {3 * d}, {""}, nn::Init::zeros())),
      out(params / "attn" / "out_proj", d, d, {}),
      norm_2(params / "ln_2", d, kEpsilon),
      expand(params / "mlp" / "c_fc", d, 4 * d, {}),
      project(params / "mlp" / "c_proj", 4 * d, d, {}) {}

Tensor ControlTypes::Layer::operator()(Tensor x, Precision precision) const {
  const Tensor values = nn::linear(norm_1(x), slice(in_weight, Axis(0), 2 * dim, dim),
                                   slice(in_bias, Axis(0), 2 * dim, dim), precision);
  x = x + out(values, precision);
  const Tensor wide = expand(norm_2(x), precision);
  return x + project(wide * logistic(1.702 * wide), precision);
}

ControlTypes::ControlTypes(const nn::Params& root, const ControlNetConfig& c)
    : count_(c.num_control_type),
      embed_dim_(c.encoder.addition_time_embed_dim),
      task_embedding_(root.weight("task_embedding", {c.num_control_type, c.num_trans_channel},
                                  {"", ""}, nn::Init::normal(1.0))),
      shift_(root / "spatial_ch_projs", c.num_trans_channel, c.encoder.block_out_channels[0],
             {.init = nn::Init::zeros()}),
      embedding_(root / "control_add_embedding",
                 c.encoder.addition_time_embed_dim * c.num_control_type, c.encoder.time_dim(),
                 nn::Init::xavier()) {
  for (int64_t i = 0; i < c.num_trans_layer; ++i) {
    layers_.emplace_back(root / "transformer_layes" / std::to_string(i), c.num_trans_channel);
  }
}

Tensor ControlTypes::embed(std::span<const int64_t> types, Graph& graph,
                           Precision precision) const {
  std::vector<float> given(static_cast<size_t>(count_), 0.0F);
  for (const int64_t type : types) {
    given[static_cast<size_t>(type)] = 1.0F;
  }
  const Tensor flags = constant_f32(graph, {count_}, given);
  const Tensor waves = reshape(nn::sinusoid(flags, embed_dim_), {1, count_ * embed_dim_});
  return embedding_(waves, silu, precision);
}

Tensor ControlTypes::fuse(std::span<const Tensor> maps, std::span<const int64_t> types,
                          Tensor scale, Tensor x, Precision precision) const {
  Tensor sum = zeros_like(x);
  for (size_t i = 0; i < maps.size(); ++i) {
    Tensor map = maps[i];
    const auto index = static_cast<int64_t>(i);
    const Tensor factor =
        maps.size() == 1 ? Tensor() : nn::as(slice(scale, Axis(0), index, 1), map.dtype());
    const Tensor kind = nn::as(slice(task_embedding_, Axis(0), types[i], 1), map.dtype());
    Tensor features = nn::as(mean(nn::as(map, DType::F32), {2, 3}), map.dtype()) + kind;
    if (factor) {
      features = features * factor;
      map = map * reshape(factor, {1, 1, 1, 1});
    }
    for (const Layer& layer : layers_) {
      features = layer(features, precision);
    }
    Tensor shift = shift_(features, precision);
    shift = factor ? shift * factor : shift;
    sum = sum + map + reshape(shift, {shift.dim(0), shift.dim(1), 1, 1});
  }
  return sum;
}

}  // namespace kinema::unet
