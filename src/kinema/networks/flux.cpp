#include <array>
#include <memory>
#include <string>

#include "kinema/core/error.h"
#include "kinema/models/flux/config_file.h"
#include "kinema/models/flux/transformer.h"
#include "kinema/networks/checkpoint_sizes.h"
#include "kinema/networks/families.h"
#include "kinema/networks/tap_names.h"

namespace kinema::networks {
namespace {

constexpr int64_t kPatch = flux::TransformerConfig::kPatch;

/// By the channels, which tell the releases apart; of models for text to image any may be Kontext.
NamedInput named_input(int64_t channels, int64_t z) {
  const int64_t more = channels - z;
  if (more == 0) {
    return {.name = "reference",
            .entry = Entry::TOKENS,
            .made_of = MadeOf::REFERENCE_IMAGE,
            .channels = z,
            .optional = true};
  }
  return {.name = "condition",
          .entry = Entry::CHANNELS,
          .made_of = more == z ? MadeOf::CONTROL_IMAGE : MadeOf::KEPT_AND_MASK,
          .channels = more};
}

Sizes sizes_of(const flux::TransformerConfig& c) {
  return {.in_channels = c.latent_channels(),
          .out_channels = c.out_channels / (c.kPatch * c.kPatch),
          .patch_size = {1, kPatch, kPatch},
          .max_positions = 1 << 16,  // positions are computed, for any number
          .text_dim = c.joint_attention_dim,
          .named = {named_input(c.latent_channels(), c.out_channels / (c.kPatch * c.kPatch))},
          .pooled_dim = c.pooled_projection_dim,
          .takes_guidance = c.guidance_embeds,
          .guidance_distilled = true,
          .makes_images = true,
          .num_layers = c.num_layers + c.num_single_layers,
          .num_heads = c.num_attention_heads,
          .width = c.dim()};
}

constexpr std::array kTapNames{TapName{"double", "transformer_blocks"},
                               TapName{"single", "single_transformer_blocks"}};

/// Keys of one context: the embedded text, [1, contexts, t, d].
class Flux final : public Architecture {
 public:
  explicit Flux(const flux::TransformerConfig& config) : config_(config), sizes_(sizes_of(config)) {
    flux::validate(config_);
  }

  const Sizes& sizes() const override { return sizes_; }
  schedulers::Learned learned() const override {
    return {
        .flow = schedulers::kFluxFlow,
        .sampled = {
            .sampler = schedulers::Sampler::FLOW_MATCH_EULER, .shift = 1.0, .even_sigmas = true}};
  }
  io::Json config() const override { return flux::config_json(config_); }
  io::Json original_config() const override {
    fail("[flux] the original release is one file: the target must end with .safetensors");
  }
  std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                        const nn::InitOptions& init) const override {
    return flux::parameters(config_, options, init);
  }
  void check_divides(const mesh::Placement& place) const override {
    flux::check_divides(config_, place);
  }

  Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                  const Inputs& inputs) const override {
    check(!inputs.image && !inputs.first_timestep && !inputs.size_ids && !inputs.control,
          "[flux] an image's states, a first frame's timestep, sizes or a control video are given, "
          "which this family does not take");
    flux::TransformerInputs in{.latents = one_frame(inputs.latents, "flux"),
                               .timestep = inputs.timestep,
                               .guidance = inputs.guidance,
                               .text = inputs.text,
                               .pooled = inputs.pooled,
                               .block_sum = inputs.block_sum,
                               .dropout_key = inputs.dropout_key,
                               .tap = inputs.tap};
    if (inputs.reference) {
      in.reference = one_frame(inputs.reference, "flux");
    }
    if (!inputs.cross_keys.empty()) {
      in.embedded_text = squeeze(inputs.cross_keys[0], Axis(0));
    }
    const flux::TransformerOutputs out = flux::transformer(params, config_, options, in);
    return {.prediction = expand_dims(out.velocity, Axis(2)), .block_sum = out.block_sum};
  }

  std::string key_of_tap(const std::string& name) const override {
    return networks::key_of_tap(name, kTapNames);
  }

  std::vector<Tensor> cross_keys(std::span<const Tensor> params, const nn::ModelOptions& options,
                                 Tensor text, Tensor /*image*/) const override {
    return {expand_dims(flux::embedded_text(params, config_, options, text), Axis(0))};
  }
  std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                      int64_t text_tokens, int64_t /*images*/) const override {
    const Shape shape{options.activations_dtype, {1, contexts, text_tokens, config_.dim()}};
    return {{.name = "embedded_text",
             .shape = shape,
             .sharding = options.place.sharding({"", "activation_batch", "", ""}, shape.dims)}};
  }
  Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                        const Dims& latents) const override {
    const Shape shape{options.activations_dtype, {contexts, sizes_.tokens(latents), config_.dim()}};
    return {.name = "block_sum",
            .shape = shape,
            .sharding = options.place.sharding(
                {"activation_batch", "activation_length", "activation_heads"}, shape.dims)};
  }

  /// Matrix products of both kinds of block, without embedders and head, which are small.
  double forward_flops(const Dims& latents, int64_t text_tokens) const override {
    const auto s = static_cast<double>(sizes_.tokens(latents) + text_tokens);
    const auto d = static_cast<double>(config_.dim());
    const double attention = 4 * s * s * d;
    const double projections = 8 * s * d * d;  // q, k, v and out
    const double mlp = 16 * s * d * d;
    const double one = attention + projections + mlp;
    // Modulation is of one vector per stream: 6 d, and 3 d in single blocks, where one output
    // projection serves attention and MLP.
    return static_cast<double>(config_.num_layers) * (one + 24 * d * d) +
           static_cast<double>(config_.num_single_layers) * (one + 6 * d * d);
  }

 private:
  flux::TransformerConfig config_;
  Sizes sizes_;
};

Network network(const flux::TransformerConfig& config) {
  return Network(std::make_shared<const Flux>(config));
}

/// The configuration from shapes; sizes that no tensor shows are those of the released models.
flux::TransformerConfig config_from_shapes(const model_files::Checkpoint& checkpoint) {
  const CheckpointSizes sizes(checkpoint);
  flux::TransformerConfig c;
  const Dims embedder = sizes.dims("x_embedder.weight", 2);
  c.in_channels = embedder[1];
  c.out_channels = sizes.dims("proj_out.weight", 2)[0];
  c.num_layers = sizes.count("transformer_blocks.{}.norm1.linear.weight");
  c.num_single_layers = sizes.count("single_transformer_blocks.{}.norm.linear.weight");
  c.attention_head_dim =
      sizes.dims(c.num_layers > 0 ? "transformer_blocks.0.attn.norm_q.weight"
                                  : "single_transformer_blocks.0.attn.norm_q.weight",
                 1)[0];
  check(c.attention_head_dim > 0 && embedder[0] % c.attention_head_dim == 0,
        "[weights] {}: width {} is not a multiple of the head width, {}", checkpoint.path(),
        embedder[0], c.attention_head_dim);
  c.num_attention_heads = embedder[0] / c.attention_head_dim;
  c.joint_attention_dim = sizes.dims("context_embedder.weight", 2)[1];
  c.pooled_projection_dim = sizes.dims("time_text_embed.text_embedder.linear_1.weight", 2)[1];
  c.guidance_embeds =
      checkpoint.find("time_text_embed.guidance_embedder.linear_1.weight") != nullptr;
  // The rotary channels per axis are in no file.
  check(c.attention_head_dim == flux::TransformerConfig().attention_head_dim,
        "[weights] {}: the head width is {}, but {} in every released model\n"
        "  put a diffusers config.json with axes_dims_rope next to the file",
        checkpoint.path(), c.attention_head_dim, flux::TransformerConfig().attention_head_dim);
  return c;
}

Network made_of_config(const io::Json& config) { return network(flux::parse_config(config)); }

Network made_of_shapes(const model_files::Checkpoint& checkpoint) {
  return network(validated(checkpoint, config_from_shapes(checkpoint),
                           [](const auto& c) { flux::validate(c); }));
}

std::optional<io::Json> released_config(std::string_view name) {
  if (name.find("FLUX.1") == std::string_view::npos) {
    return std::nullopt;
  }
  flux::TransformerConfig config;
  config.guidance_embeds = name.find("schnell") == std::string_view::npos;
  return flux::config_json(config);
}

}  // namespace

Maker flux_family() {
  return {.class_name = flux::kClassName,
          .from_config = made_of_config,
          .from_shapes = made_of_shapes,
          .released_config = released_config};
}

}  // namespace kinema::networks
