#include "kinema/models/dreamer/decoder.h"

#include <string>

#include "kinema/models/dreamer/encoder.h"
#include "kinema/nn/activation.h"
#include "kinema/nn/linear.h"

namespace kinema::dreamer {
namespace {

Tensor flat(Tensor x) { return reshape(x, {x.dim(0), -1}); }

/// [n, ...] -> [n].
Tensor sum_of_row(Tensor x) { return sum(flat(x), {1}); }

nn::DenseBlock::How block_of(const CoderConfig& c) { return {.activation = c.act, .norm = c.norm}; }

nn::ImageConv::Resize resize_of(const CoderConfig& c) {
  return c.strided ? nn::ImageConv::Resize::UP : nn::ImageConv::Resize::NONE;
}

}  // namespace

Decoder::Pixels::Pixels(const nn::Params& params, const AgentConfig& config, const Spaces& images)
    : rows(images[0].second.shape[0] >> config.decoder.halvings()),
      columns(images[0].second.shape[1] >> config.decoder.halvings()),
      channels(config.decoder.depth * config.decoder.mults.back()),
      from_deter(params / "sp0", config.rssm.deter, rows * columns * channels,
                 config.decoder.bspace),
      from_stoch(params / "sp1", params / "sp1norm", config.rssm.stoch * config.rssm.classes,
                 2 * config.decoder.units, block_of(config.decoder)),
      stoch_pixels(params / "sp2", 2 * config.decoder.units, rows * columns * channels),
      norm(params / "spnorm", channels, config.decoder.norm),
      out(params / "imgout", config.decoder.depth * config.decoder.mults[0], channels_of(images),
          config.decoder.kernel,
          config.decoder.outer ? nn::ImageConv::Resize::NONE : resize_of(config.decoder),
          config.decoder.outscale) {
  const CoderConfig& c = config.decoder;
  // From the small image to the large one: stage i has the encoder's number.
  for (size_t i = c.mults.size() - 1; i-- > 0;) {
    const std::string name = "conv" + std::to_string(i);
    const int64_t to = c.depth * c.mults[i];
    stages.push_back({.conv = {params / name, c.depth * c.mults[i + 1], to, c.kernel, resize_of(c)},
                      .norm = {params / (name + "norm"), to, c.norm}});
  }
}

Decoder::Decoder(const nn::Params& params, const AgentConfig& config)
    : config_(config.decoder), observations_(config.observations), images_(images_of(config)) {
  const Spaces vectors = vectors_of(config);
  if (!vectors.empty()) {
    mlp_.emplace(params / "mlp", config.rssm.features(), config_.units, config_.layers,
                 block_of(config_));
    for (const auto& [name, space] : vectors) {
      const char* kind = space.is_discrete() ? "logits" : "pred";
      heads_.push_back({.name = name,
                        .space = space,
                        .dense = {params / "vec" / name / kind, config_.units, space.features(),
                                  config_.outscale}});
    }
  }
  if (!images_.empty()) {
    pixels_.emplace(params, config, images_);
  }
}

void Decoder::vectors(TensorMap& out, const RssmState& state,
                      const nn::ModelOptions& options) const {
  // stoch before deter: the other way round than heads have it.
  const Tensor x =
      (*mlp_)(concatenate({flat(state.stoch), state.deter}, Axis(1)), options.precision);
  for (const VectorHead& head : heads_) {
    Dims dims = head.space.shape;
    dims.insert(dims.begin(), x.dim(0));
    if (head.space.is_discrete()) {
      dims.push_back(head.space.classes);
    }
    out[head.name] = reshape(head.dense(x, options.precision), dims);
  }
}

Tensor Decoder::small_image(const RssmState& state, const nn::ModelOptions& options) const {
  const Pixels& p = *pixels_;
  const int64_t n = state.deter.dim(0);
  const int64_t groups = config_.bspace;
  // Each block gives some of the channels of all pixels.
  const Tensor by_group = reshape(p.from_deter(state.deter, options.precision),
                                  {n, groups, p.rows, p.columns, p.channels / groups});
  const Dims small{n, p.rows, p.columns, p.channels};
  const Tensor of_deter = reshape(transpose(by_group, {0, 2, 3, 1, 4}), small);
  const Tensor hidden = p.from_stoch(flat(state.stoch), options.precision);
  const Tensor of_stoch = reshape(p.stoch_pixels(hidden, options.precision), small);
  return nn::activate(config_.act, p.norm(of_deter + of_stoch));
}

void Decoder::images(TensorMap& out, const RssmState& state,
                     const nn::ModelOptions& options) const {
  const auto enlarged = [&](Tensor x) { return config_.strided ? x : nn::repeat_pixels(x); };
  Tensor x = small_image(state, options);
  for (const Stage& stage : pixels_->stages) {
    x = nn::activate(config_.act, stage.norm(stage.conv(enlarged(x), options.precision)));
  }
  x = nn::sigmoid(pixels_->out(config_.outer ? x : enlarged(x), options.precision));
  int64_t first = 0;
  for (const auto& [name, space] : images_) {
    out[name] = slice(x, Axis(3), first, space.shape[2]);
    first += space.shape[2];
  }
}

TensorMap Decoder::operator()(const RssmState& state, const nn::ModelOptions& options) const {
  TensorMap out;
  if (mlp_) {
    vectors(out, state, options);
  }
  if (pixels_) {
    images(out, state, options);
  }
  return out;
}

TensorMap Decoder::losses(const TensorMap& reconstructed, const TensorMap& observations) const {
  TensorMap out;
  for (const auto& [name, space] : observations_) {
    const Tensor given = value_of(reconstructed, name);
    const Tensor target = value_of(observations, name);
    if (space.is_discrete()) {
      out[name] = sum_of_row(-nn::Categorical(given).log_prob(nn::as(target, DType::S32)));
      continue;
    }
    const Tensor mean = nn::widened(given);
    const Tensor x = nn::as(target, mean.dtype());
    const Tensor seen = space.is_image() ? x / 255.0 : config_.symlog ? nn::symlog(x) : x;
    out[name] = sum_of_row(square(mean - stop_gradient(seen)));
  }
  return out;
}

}  // namespace kinema::dreamer
