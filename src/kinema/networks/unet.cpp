#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>

#include "kinema/core/error.h"
#include "kinema/models/unet/config_file.h"
#include "kinema/models/unet/unet.h"
#include "kinema/networks/checkpoint_sizes.h"
#include "kinema/networks/families.h"
#include "kinema/networks/tap_names.h"
#include "kinema/networks/unet_config.h"

namespace kinema::networks {
namespace {

std::vector<NamedInput> named_inputs(const unet::UNetConfig& c) {
  if (c.in_channels == c.out_channels) {
    return {};
  }
  return {{.name = "condition",
           .entry = Entry::CHANNELS,
           .made_of = MadeOf::MASK_AND_KEPT,
           .channels = c.in_channels - c.out_channels}};
}

Sizes sizes_of(const unet::UNetConfig& c) {
  return {.in_channels = c.in_channels,
          .out_channels = c.out_channels,
          .max_positions = 1 << 16,  // has no position embeddings
          .text_dim = c.cross_attention_dim,
          .encoder_tokens = 77,
          .named = named_inputs(c),
          .pooled_dim = c.pooled_dim(),
          .size_ids = c.has_addition() ? unet::UNetConfig::kTimeIds : 0,
          .makes_images = true,
          .sample_size = c.sample_size,
          .num_layers = std::accumulate(c.transformer_layers_per_block.begin(),
                                        c.transformer_layers_per_block.end(), int64_t{0}),
          .num_heads = c.num_attention_heads.back(),
          .width = c.block_out_channels[0]};
}

constexpr std::array kTapNames{
    TapName{"down", "down_blocks"},     TapName{"mid", "mid_block"},
    TapName{"up", "up_blocks"},         TapName{"resnet", "resnets"},
    TapName{"attention", "attentions"}, TapName{"block", "transformer_blocks"}};

class UNet final : public Architecture {
 public:
  explicit UNet(const unet::UNetConfig& config) : config_(config), sizes_(sizes_of(config)) {
    unet::validate(config_);
  }

  const Sizes& sizes() const override { return sizes_; }
  /// The samplers of the releases: Euler for XL, PNDM without Runge-Kutta steps for 1, DDIM for 2.
  schedulers::Learned learned() const override {
    using enum schedulers::Sampler;
    schedulers::Learned out{.diffusion = schedulers::Diffusion(),
                            .sampled = {.sampler = EULER, .shift = 1.0}};
    if (!config_.has_addition()) {
      out.sampled.sampler = config_.use_linear_projection ? DDIM : PNDM;
      out.sampled.solver.skip_prk_steps = !config_.use_linear_projection;
    }
    return out;
  }
  io::Json config() const override { return unet::config_json(config_); }
  io::Json original_config() const override {
    fail("[unet] the original release is one file: the target must end with .safetensors");
  }
  std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                        const nn::InitOptions& init) const override {
    return unet::parameters(config_, options, init);
  }
  /// Numbers of heads differ by level; heads that do not divide are replicated.
  void check_divides(const mesh::Placement& /*place*/) const override {}

  Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                  const Inputs& inputs) const override {
    check(!inputs.image && !inputs.first_timestep && !inputs.guidance && !inputs.reference &&
              !inputs.control,
          "[unet] an image's states, a first frame's timestep, guidance, a reference or a control "
          "video are given, which this family does not take");
    const unet::UNetInputs in{.latents = one_frame(inputs.latents, "unet"),
                              .timestep = inputs.timestep,
                              .text = inputs.text,
                              .pooled = inputs.pooled,
                              .time_ids = inputs.size_ids,
                              .keys = inputs.cross_keys,
                              .block_sum = inputs.block_sum,
                              .residuals = residuals_of(inputs),
                              .dropout_key = inputs.dropout_key,
                              .tap = inputs.tap};
    const unet::UNetOutputs out = unet::unet(params, config_, options, in);
    return {.prediction = expand_dims(out.prediction, Axis(2)), .block_sum = out.block_sum};
  }

  std::string key_of_tap(const std::string& name) const override {
    return networks::key_of_tap(name, kTapNames);
  }

  std::vector<Tensor> cross_keys(std::span<const Tensor> params, const nn::ModelOptions& options,
                                 Tensor text, Tensor /*image*/) const override {
    return unet::text_keys(params, config_, options, text);
  }
  std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                      int64_t text_tokens, int64_t /*images*/) const override {
    return unet_key_values(unet::text_key_sizes(config_), options, contexts, text_tokens);
  }
  Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                        const Dims& latents) const override {
    const Shape shape{options.activations_dtype,
                      {contexts, sizes_.tokens(latents), config_.block_out_channels[0]}};
    return {.name = "block_sum",
            .shape = shape,
            .sharding = options.place.sharding({"activation_batch", "", ""}, shape.dims)};
  }
  double forward_flops(const Dims& latents, int64_t text_tokens) const override {
    return unet::forward_flops(config_, latents[2], latents[3], text_tokens);
  }

 private:
  static unet::Residuals residuals_of(const Inputs& inputs) {
    if (inputs.residuals.empty()) {
      return {};
    }
    unet::Residuals out{.skips = inputs.residuals, .mid = inputs.residuals.back()};
    out.skips.pop_back();
    return out;
  }

  unet::UNetConfig config_;
  Sizes sizes_;
};

Network network(const unet::UNetConfig& config) {
  return Network(std::make_shared<const UNet>(config));
}

unet::UNetConfig config_from_shapes(const model_files::Checkpoint& checkpoint) {
  unet::UNetConfig c = encoder_from_shapes(checkpoint);
  c.out_channels = CheckpointSizes(checkpoint).dims("conv_out.weight", 4)[0];
  return c;
}

Network made_of_config(const io::Json& config) { return network(unet::parse_config(config)); }

Network made_of_shapes(const model_files::Checkpoint& checkpoint) {
  return network(validated(checkpoint, config_from_shapes(checkpoint),
                           [](const auto& c) { unet::validate(c); }));
}

/// Stable Diffusion 1: eight heads on each level, and convolutions around transformers.
unet::UNetConfig stable_diffusion_1() {
  unet::UNetConfig c;
  c.block_out_channels = {320, 640, 1280, 1280};
  c.cross_attention = {true, true, true, false};
  c.transformer_layers_per_block = {1, 1, 1, 1};
  c.num_attention_heads = {8, 8, 8, 8};
  c.cross_attention_dim = 768;
  c.addition_time_embed_dim = c.projection_class_embeddings_input_dim = 0;
  c.use_linear_projection = false;
  c.sample_size = 64;
  return c;
}

/// Stable Diffusion 2: heads of 64 channels. `base` models were trained on 512 x 512 pixels.
unet::UNetConfig stable_diffusion_2(bool base) {
  unet::UNetConfig c = stable_diffusion_1();
  c.num_attention_heads = {5, 10, 20, 20};
  c.cross_attention_dim = 1024;
  c.use_linear_projection = true;
  c.sample_size = base ? 64 : 96;
  return c;
}

std::optional<io::Json> released_config(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  unet::UNetConfig config;
  if (has("stable-diffusion-v1") || has("stable-diffusion-1") ||
      has("stable-diffusion-inpainting")) {
    config = stable_diffusion_1();
  } else if (has("stable-diffusion-2")) {
    config = stable_diffusion_2(has("base") || has("inpainting"));
  } else if (!has("stable-diffusion-xl") && !has("SDXL")) {
    return std::nullopt;
  }
  if (has("inpainting")) {
    config.in_channels = 2 * config.out_channels + 1;  // and a mask, and the kept part
  }
  return unet::config_json(config);
}

}  // namespace

Maker unet_family() {
  return {.class_name = unet::kClassName,
          .from_config = made_of_config,
          .from_shapes = made_of_shapes,
          .released_config = released_config};
}

}  // namespace kinema::networks
