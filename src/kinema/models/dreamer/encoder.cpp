#include "kinema/models/dreamer/encoder.h"

#include "kinema/nn/linear.h"

namespace kinema::dreamer {
namespace {

Spaces observations_that(const AgentConfig& config, bool are_images) {
  Spaces spaces;
  for (const auto& [name, space] : config.observations) {
    if (space.is_image() == are_images) {
      spaces.emplace_back(name, space);
    }
  }
  return spaces;
}

}  // namespace

Spaces vectors_of(const AgentConfig& config) { return observations_that(config, false); }
Spaces images_of(const AgentConfig& config) { return observations_that(config, true); }

int64_t channels_of(const Spaces& images) {
  int64_t n = 0;
  for (const auto& [name, space] : images) {
    n += space.shape[2];
  }
  return n;
}

int64_t Encoder::tokens(const AgentConfig& config) {
  const CoderConfig& c = config.encoder;
  int64_t n = vectors_of(config).empty() ? 0 : c.units;
  if (const Spaces images = images_of(config); !images.empty()) {
    const Dims& size = images[0].second.shape;
    n += (size[0] >> c.halvings()) * (size[1] >> c.halvings()) * c.depth * c.mults.back();
  }
  return n;
}

Encoder::Encoder(const nn::Params& params, const AgentConfig& config)
    : config_(config.encoder),
      vectors_(vectors_of(config)),
      images_(sorted_by_name(images_of(config))) {
  const CoderConfig& c = config_;
  const nn::DenseBlock::How how{.activation = c.act, .norm = c.norm};
  if (!vectors_.empty()) {
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = "mlp" + std::to_string(i);
      mlp_.emplace_back(params / name, params / (name + "norm"),
                        i == 0 ? features(vectors_) : c.units, c.units, how);
    }
  }
  if (!images_.empty()) {
    int64_t in = channels_of(images_);
    for (size_t i = 0; i < c.mults.size(); ++i) {
      const std::string name = "cnn" + std::to_string(i);
      const bool keeps = c.outer && i == 0;
      const int64_t out = c.depth * c.mults[i];
      using Resize = nn::ImageConv::Resize;
      stages_.push_back({.conv = {params / name, in, out, c.kernel,
                                  c.strided && !keeps ? Resize::DOWN : Resize::NONE},
                         .norm = {params / (name + "norm"), out, c.norm},
                         .pools = !c.strided && !keeps});
      in = out;
    }
  }
}

Tensor Encoder::encoded_images(const TensorMap& observations,
                               const nn::ModelOptions& options) const {
  std::vector<Tensor> images;
  for (const auto& [name, space] : images_) {
    images.push_back(nn::as(value_of(observations, name), options.activations_dtype));
  }
  Tensor x = images.size() == 1 ? images[0] : concatenate(images, Axis(-1));
  x = x / 255.0 - 0.5;
  for (const Stage& stage : stages_) {
    x = stage.conv(x, options.precision);
    x = stage.pools ? nn::max_pool(x) : x;
    x = nn::activate(config_.act, stage.norm(x));
  }
  return reshape(x, {x.dim(0), -1});
}

Tensor Encoder::operator()(const TensorMap& observations, const nn::ModelOptions& options) const {
  std::vector<Tensor> tokens;
  if (!vectors_.empty()) {
    Tensor x = vector_of(vectors_, observations, config_.symlog, options.activations_dtype);
    for (const nn::DenseBlock& block : mlp_) {
      x = block(x, options.precision);
    }
    tokens.push_back(x);
  }
  if (!images_.empty()) {
    tokens.push_back(encoded_images(observations, options));
  }
  return tokens.size() == 1 ? tokens[0] : concatenate(tokens, Axis(1));
}

}  // namespace kinema::dreamer
