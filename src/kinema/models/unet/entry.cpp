#include "kinema/models/unet/entry.h"

#include <string>

#include "kinema/core/error.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/quantized_modules.h"

namespace kinema::unet {
namespace {

Tensor offered(const UNetInputs& inputs, const char* name, Tensor value) {
  if (inputs.tap) {
    inputs.tap(name, value);
  }
  return value;
}

}  // namespace

Entry::Entry(const nn::Params& root, const UNetConfig& c)
    : config_(c),
      conv_in_(root / "conv_in", c.in_channels, c.block_out_channels[0], 3),
      time_(root / "time_embedding", c.block_out_channels[0], c.time_dim(), nn::Init::xavier()),
      addition_(c.has_addition()
                    ? std::optional<nn::EmbeddingMlp>(std::in_place, root / "add_embedding",
                                                      c.projection_class_embeddings_input_dim,
                                                      c.time_dim(), nn::Init::xavier())
                    : std::nullopt) {}

Tensor Entry::convolve(const UNetInputs& inputs, const nn::ModelOptions& options) const {
  const Scope scope(inputs.latents.graph(), "conv_in");
  return offered(inputs, "conv_in",
                 conv_in_(nn::as(inputs.latents, options.activations_dtype), options.precision));
}

Tensor Entry::embed(const UNetInputs& inputs, const nn::ModelOptions& options) const {
  // In f32: timesteps and sizes in the thousands lose digits in bf16.
  const Scope scope(inputs.latents.graph(), "time_embedding");
  const Tensor time = offered(inputs, "time_sinusoid",
                              nn::sinusoid(inputs.timestep, config_.block_out_channels[0]));
  Tensor sum = offered(inputs, "time_embedding", time_(time, silu, options.precision));
  if (addition_) {
    const int64_t b = inputs.latents.dim(0);
    const Tensor sizes = offered(inputs, "add_time_sinusoid",
                                 nn::sinusoid(reshape(inputs.time_ids, {b * UNetConfig::kTimeIds}),
                                              config_.addition_time_embed_dim));
    const Tensor added =
        concatenate({nn::as(inputs.pooled, DType::F32), reshape(sizes, {b, -1})}, Axis(1));
    sum = sum + offered(inputs, "add_embedding", (*addition_)(added, silu, options.precision));
  }
  return sum;
}

nn::SpecCollector spec_collector(const nn::ModelOptions& options) {
  return nn::SpecCollector(
      [weights = options.weights_dtype, storage = options.weights_storage](const std::string& key) {
        return parameter_dtype(key, weights, storage);
      },
      options.low_ranks);
}

std::vector<nn::ParamSpec> finished(nn::SpecCollector& specs, const nn::ModelOptions& options) {
  nn::check_module_path(options.quantization, specs.products(), nn::plain_module_path);
  std::vector<nn::ParamSpec> result = specs.take();
  for (nn::ParamSpec& spec : result) {
    if (spec.layers > 0 && spec.layer_shape().rank() == 2 && !spec.is_low_rank()) {
      spec.memory = options.weights_memory;
    }
  }
  return result;
}

void check_inputs(const UNetInputs& in, const UNetConfig& c, const nn::ModelOptions& options,
                  size_t keys) {
  check(in.latents.rank() == 4 && in.latents.dim(1) == c.in_channels,
        "[unet] latents are {} but must be [b, {}, h, w]", to_string(in.latents.shape()),
        c.in_channels);
  const int64_t b = in.latents.dim(0);
  check(in.timestep.rank() == 1 && (in.timestep.dim(0) == b || in.timestep.dim(0) == 1),
        "[unet] timestep is {} but must be [{}], or [1] for all samples",
        to_string(in.timestep.shape()), b);
  check(options.dropout == 0.0, "[unet] dropout is {} but this family has none", options.dropout);
  const auto check_rows = [&](std::string_view name, Tensor x, int64_t width) {
    check(x && x.shape().dims == Dims({b, width}), "[unet] {} is {} but must be [{}, {}]", name,
          x ? to_string(x.shape()) : "not given", b, width);
  };
  if (c.has_addition()) {
    check_rows("pooled text", in.pooled, c.pooled_dim());
    check_rows("time_ids", in.time_ids, UNetConfig::kTimeIds);
  } else {
    check(!in.pooled && !in.time_ids, "[unet] pooled text or time_ids are given to a UNet without");
  }
  if (in.block_sum) {
    const Shape sum{options.activations_dtype,
                    {b, in.latents.dim(2) * in.latents.dim(3), c.block_out_channels[0]}};
    check(in.block_sum.shape() == sum, "[unet] block_sum is {} but must be {}",
          to_string(in.block_sum.shape()), to_string(sum));
  } else if (!in.keys.empty()) {
    check(in.keys.size() == keys, "[unet] {} keys and values are given but there are {}",
          in.keys.size(), keys);
  } else {
    check(in.text && in.text.rank() == 3 && in.text.dim(0) == b &&
              in.text.dim(2) == c.cross_attention_dim,
          "[unet] text is {} but must be [{}, t, {}]",
          in.text ? to_string(in.text.shape()) : "not given", b, c.cross_attention_dim);
  }
}

}  // namespace kinema::unet
