#include "kinema/models/unet/unet.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/models/unet/entry.h"
#include "kinema/models/unet/levels.h"
#include "kinema/nn/quantized_modules.h"

namespace kinema::unet {
namespace {

/// The parameters outside the levels.
struct Ends {
  Ends(const nn::Params& root, const UNetConfig& c)
      : entry(root, c),
        norm_out(root / "conv_norm_out", c.block_out_channels[0], c.norm_num_groups, c.norm_eps),
        // Zero: the first prediction is the target's mean, regardless of the blocks.
        conv_out(root / "conv_out", c.block_out_channels[0], c.out_channels, 3, nn::Init::zeros()) {
  }

  Entry entry;
  nn::GroupNorm norm_out;
  nn::Conv2d conv_out;
};

/// Feature maps [b, c, h, w] as [b, h w, c], and back.
Tensor to_tokens(Tensor x) {
  return reshape(transpose(x, {0, 2, 3, 1}), {x.dim(0), x.dim(2) * x.dim(3), x.dim(1)});
}
Tensor to_map(Tensor tokens, int64_t h, int64_t w) {
  return transpose(reshape(tokens, {tokens.dim(0), h, w, tokens.dim(2)}), {0, 3, 1, 2});
}

/// x + what a ControlNet adds there: a map, or one value for all pixels.
Tensor with_residual(Tensor x, Tensor residual, const char* where) {
  Shape whole = x.shape();
  whole.dtype = residual.dtype();
  Shape pooled = whole;
  pooled.dims[2] = pooled.dims[3] = 1;
  check(residual.shape() == whole || residual.shape() == pooled,
        "[unet] the residual of {} is {} but must be {}, or of one pixel", where,
        to_string(residual.shape()), to_string(whole));
  return x + nn::as(residual, x.dtype());
}

/// conv_in's output through all levels.
Tensor through_levels(Walk walk, Tensor x, const Levels& levels, const Residuals& residuals) {
  std::vector<Tensor> skips;
  x = walk.down(x, levels.down, skips);
  x = walk.middle(x, levels.mid);
  if (residuals.mid) {
    check(residuals.skips.size() == skips.size(),
          "[unet] there are {} residuals but {} skip connections", residuals.skips.size(),
          skips.size());
    // After the whole encoder: it does not see them.
    for (size_t i = 0; i < skips.size(); ++i) {
      skips[i] = with_residual(skips[i], residuals.skips[i], "a skip connection");
    }
    x = with_residual(x, residuals.mid, "the middle");
  }
  return walk.up(x, levels.up, std::move(skips));
}

}  // namespace

DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage) {
  for (const std::string_view part :
       {"norm", "time_embedding.", "add_embedding.", "lora_scale", "weight_scale"}) {
    if (key.find(part) != std::string_view::npos) {
      return DType::F32;
    }
  }
  const bool is_narrow = weights_storage &&
                         key.find(".transformer_blocks.") != std::string_view::npos &&
                         key.ends_with(".weight") && key.find(".lora_") == std::string_view::npos;
  return is_narrow ? *weights_storage : weights_dtype;
}

std::vector<nn::ParamSpec> parameters(const UNetConfig& config, const nn::ModelOptions& options,
                                      const nn::InitOptions& /*init*/) {
  validate(config);
  nn::SpecCollector specs = spec_collector(options);
  const Ends ends(nn::Params(specs, ""), config);
  open_levels(specs, levels_of(config), config, options.scan_layers);
  return finished(specs, options);
}

std::vector<Tensor> text_keys(std::span<const Tensor> params, const UNetConfig& config,
                              const nn::ModelOptions& options, Tensor text) {
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path));
  return keys_of(bound, levels_of(config), config, options, text);
}

std::vector<std::array<int64_t, 3>> text_key_sizes(const UNetConfig& config) {
  return text_key_sizes(levels_of(config));
}

UNetOutputs unet(std::span<const Tensor> params, const UNetConfig& config,
                 const nn::ModelOptions& options, const UNetInputs& inputs) {
  const Levels levels = levels_of(config);
  check_inputs(inputs, config, options, 2 * transformers(levels).size());
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path),
                  nn::Dropout(options.low_rank_dropout, inputs.dropout_key));
  const Ends ends(bound.root(), config);
  const Tensor temb = nn::as(silu(ends.entry.embed(inputs, options)), options.activations_dtype);
  Tensor x = ends.entry.convolve(inputs, options);
  const Tensor before = x;
  Tensor block_sum = inputs.block_sum;
  if (block_sum) {
    x = before + to_map(block_sum, x.dim(2), x.dim(3));
  } else {
    std::vector<Tensor> keys =
        inputs.keys.empty() ? keys_of(bound, levels, config, options, inputs.text) : inputs.keys;
    x = through_levels(Walk(bound, config, options, inputs.tap, std::move(keys), temb), x, levels,
                       inputs.residuals);
    block_sum = to_tokens(x - before);
  }
  const Scope scope(x.graph(), "conv_out");
  if (inputs.tap) {
    inputs.tap("conv_norm_out", ends.norm_out(x));
  }
  return {.prediction = ends.conv_out(ends.norm_out, x, options.precision), .block_sum = block_sum};
}

}  // namespace kinema::unet
