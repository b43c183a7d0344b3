#include <fmt/format.h>

#include <memory>
#include <string>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/models/unet/config_file.h"
#include "kinema/models/unet/controlnet.h"
#include "kinema/networks/checkpoint_sizes.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/unet_config.h"

// ControlNets of Stable Diffusion.
namespace kinema::networks {
namespace {

class UNetControl final : public ControlArchitecture {
 public:
  explicit UNetControl(unet::ControlNetConfig config) : config_(std::move(config)) {
    unet::validate(config_);
    const unet::UNetConfig& c = config_.encoder;
    sizes_ = {.in_channels = c.in_channels,
              .out_channels = c.in_channels,
              .text_dim = c.cross_attention_dim,
              .pooled_dim = c.has_addition() ? c.pooled_dim() : 0,
              .size_ids = c.has_addition() ? unet::UNetConfig::kTimeIds : 0,
              .makes_images = true,
              .width = c.block_out_channels[0]};
  }

  const Sizes& sizes() const override { return sizes_; }
  int64_t picture_channels() const override { return config_.conditioning_channels; }
  int64_t cell() const override { return config_.cell(); }
  int64_t types() const override { return config_.num_control_type; }
  bool pools() const override { return config_.global_pool_conditions; }
  io::Json config() const override { return unet::config_json(config_); }
  std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options) const override {
    return unet::parameters(config_, options);
  }

  std::vector<Tensor> residuals(std::span<const Tensor> params, const nn::ModelOptions& options,
                                const Inputs& inputs, const ControlInputs& control) const override {
    const unet::Residuals made =
        unet::controlnet(params, config_, options,
                         {.unet = {.latents = one_frame(inputs.latents, "unet"),
                                   .timestep = inputs.timestep,
                                   .text = inputs.text,
                                   .pooled = inputs.pooled,
                                   .time_ids = inputs.size_ids,
                                   .keys = inputs.cross_keys,
                                   .dropout_key = inputs.dropout_key,
                                   .tap = inputs.tap},
                          .pictures = control.pictures,
                          .types = config_.is_union() ? control.types : std::vector<int64_t>(),
                          .scale = control.scale,
                          .rising = control.rising});
    std::vector<Tensor> out = made.skips;
    out.push_back(made.mid);
    if (inputs.tap) {
      for (size_t i = 0; i < made.skips.size(); ++i) {
        inputs.tap(fmt::format("down_residual{}", i), made.skips[i]);
      }
      inputs.tap("mid_residual", made.mid);
    }
    return out;
  }

  std::vector<Tensor> cross_keys(std::span<const Tensor> params, const nn::ModelOptions& options,
                                 Tensor text) const override {
    return unet::text_keys(params, config_, options, text);
  }
  std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                      int64_t text_tokens) const override {
    return unet_key_values(unet::text_key_sizes(config_), options, contexts, text_tokens);
  }
  double forward_flops(const Dims& latents, int64_t text_tokens, int64_t pictures) const override {
    return unet::forward_flops(config_, latents[2], latents[3], text_tokens, pictures);
  }

 private:
  unet::ControlNetConfig config_;
  Sizes sizes_;
};

/// As UNets from shapes; without up blocks.
unet::ControlNetConfig config_from_shapes(const model_files::Checkpoint& checkpoint) {
  const CheckpointSizes sizes(checkpoint);
  unet::ControlNetConfig c{.encoder = encoder_from_shapes(checkpoint)};
  c.encoder.out_channels = c.encoder.in_channels;
  const std::string embedding = "controlnet_cond_embedding.";
  c.conditioning_channels = sizes.dims(embedding + "conv_in.weight", 4)[1];
  c.conditioning_embedding_out_channels = {sizes.dims(embedding + "conv_in.weight", 4)[0]};
  const int64_t blocks = sizes.count(embedding + "blocks.{}.weight");
  for (int64_t i = 1; i < blocks; i += 2) {
    c.conditioning_embedding_out_channels.push_back(
        sizes.dims(fmt::format("{}blocks.{}.weight", embedding, i), 4)[0]);
  }
  if (checkpoint.find("task_embedding") != nullptr) {
    constexpr int64_t kHeads = 8;  // of every released one; not used
    const Dims& types = sizes.dims("task_embedding", 2);
    c.num_control_type = types[0];
    c.num_trans_channel = types[1];
    c.num_trans_head = kHeads;
    c.num_trans_layer = sizes.count("transformer_layes.{}.ln_1.weight");
  }
  return c;
}

ControlNet made(unet::ControlNetConfig config) {
  return std::make_shared<const UNetControl>(std::move(config));
}

}  // namespace

ControlNet control_from_config(const io::Json& config) {
  return made(unet::parse_controlnet_config(config));
}

ControlNet new_control(const Network& network) {
  const io::Json config = network->config();
  check(config.at("_class_name").as_string() == unet::kClassName,
        "[networks] new ControlNets are made for Stable Diffusion 1, 2 and XL, not for a {}",
        config.at("_class_name").as_string());
  const unet::UNetConfig encoder = unet::parse_config(config);
  check(encoder.in_channels == encoder.out_channels,
        "[networks] a ControlNet is trained for a UNet of {} channels, but this one takes {}: a "
        "mask or a picture beside the latents",
        encoder.out_channels, encoder.in_channels);
  return made({.encoder = encoder});
}

ControlNet open_control(const std::filesystem::path& path) {
  const model_files::Checkpoint files = model_files::Checkpoint::open(path);
  if (const io::Json& config = files.config(); config.is_object()) {
    return control_from_config(config);
  }
  return made(validated(files, config_from_shapes(files),
                        [](const unet::ControlNetConfig& c) { unet::validate(c); }));
}

}  // namespace kinema::networks
