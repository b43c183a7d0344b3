#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/models/unet/config.h"
#include "kinema/models/unet/transformer.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"

/// The levels of a UNet: its parameters, forward pass and text keys all follow one list of units. A
/// ControlNet has the levels of the down path and the middle.
namespace kinema::unet {

/// Called with intermediate values under the names of the reference cases' taps ("down1.resnet0").
using Tap = std::function<void(const std::string& name, Tensor value)>;

/// A resnet, followed by a transformer on levels that have one.
struct Unit {
  std::string resnet;  // path
  int64_t in = 0;
  int64_t out = 0;
  std::optional<TransformerSpec> attention = {};
};

/// A level of the down or up path: units, then the resampling.
struct Stage {
  std::string tap;  // `down1`
  std::vector<Unit> units = {};
  std::string resample = {};  // path; empty: none
  int64_t channels = 0;
};

struct Levels {
  std::vector<Stage> down;
  Stage mid;
  std::vector<Stage> up;
};

/// All levels of a UNet, or those of its encoder: without the up path.
Levels levels_of(const UNetConfig& config);
Levels encoder_levels(const UNetConfig& config);

/// The channels of each skip connection, in the order of the down path: after conv_in, after each
/// unit, and after each downsampler.
std::vector<int64_t> skip_channels(const UNetConfig& config);

/// The transformers in the order of the forward pass; they point into `levels`.
std::vector<const TransformerSpec*> transformers(const Levels& levels);

/// Opens the parameters of all levels.
void open_levels(nn::SpecCollector& specs, const Levels& levels, const UNetConfig& config,
                 bool stacked);

/// Keys and values of each transformer of the levels, from text [b, t, cross_attention_dim]: key,
/// value, key, ..., each [layers, b, t, heads, head width].
std::vector<Tensor> keys_of(nn::Bound& bound, const Levels& levels, const UNetConfig& config,
                            const nn::ModelOptions& options, Tensor text);

/// Layers, heads and head width of each of these tensors.
std::vector<std::array<int64_t, 3>> text_key_sizes(const Levels& levels);

/// The forward pass through the levels with one timestep embedding. Transformers take their keys in
/// the order in which they are passed.
class Walk {
 public:
  /// `temb` [b, time_dim] after SiLU, in the dtype of activations. The references must outlive it.
  Walk(nn::Bound& bound, const UNetConfig& config, const nn::ModelOptions& options, const Tap& tap,
       std::vector<Tensor> keys, Tensor temb);

  /// x [b, c, h, w], conv_in's output, through the down path. `skips` receives x and every result
  /// that the up path takes.
  Tensor down(Tensor x, std::span<const Stage> stages, std::vector<Tensor>& skips);
  /// x through the units of the middle.
  Tensor middle(Tensor x, const Stage& stage);
  /// x through the up path, which takes the skips from the last to the first.
  Tensor up(Tensor x, std::span<const Stage> stages, std::vector<Tensor> skips);

 private:
  void offer(const std::string& name, Tensor value) const;
  PartTap part_tap(const Stage& stage, const char* part, size_t number) const;
  /// One resnet and its transformer.
  Tensor through(Tensor x, const Stage& stage, size_t number);

  nn::Bound& bound_;
  const UNetConfig& config_;
  const nn::ModelOptions& options_;
  const Tap& tap_;
  std::vector<Tensor> keys_;
  Tensor temb_;
  TransformerOptions given_;
  size_t next_key_ = 0;
};

}  // namespace kinema::unet
