#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "kinema/core/error.h"
#include "kinema/models/zimage/config_file.h"
#include "kinema/models/zimage/control.h"
#include "kinema/models/zimage/transformer.h"
#include "kinema/networks/checkpoint_sizes.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/families.h"
#include "kinema/networks/tap_names.h"
#include "kinema/weights/folder.h"

namespace kinema::networks {
namespace {

constexpr int64_t kPatch = zimage::TransformerConfig::kPatch;
constexpr int64_t kFill = zimage::TransformerConfig::kFill;
constexpr double kTimesteps = 1000.0;

Sizes sizes_of(const zimage::TransformerConfig& c) {
  Sizes out{.in_channels = c.in_channels,
            .out_channels = c.in_channels,
            .patch_size = {1, kPatch, kPatch},
            .max_positions = c.axes_lens[1],
            .text_dim = c.cap_feat_dim,
            .reads_padding = false,
            .guidance_offset = 1.0,
            .makes_images = true,
            .num_layers = c.n_layers,
            .num_heads = c.n_heads,
            .width = c.dim};
  if (c.control) {
    out.named.push_back({.name = "control",
                         .entry = Entry::BRANCH,
                         .made_of = c.control->control_in_dim == c.in_channels
                                        ? MadeOf::FOLLOWED_IMAGE
                                        : MadeOf::FOLLOWED_AND_KEPT,
                         .channels = c.control->control_in_dim});
    out.control_layers = std::ssize(c.control->control_layers_places);
  }
  return out;
}

constexpr std::array kTapNames{TapName{"layer", "layers"},
                               TapName{"noise_refiner", "noise_refiner"},
                               TapName{"context_refiner", "context_refiner"}};

/// Keys of one context: the refined text [1, contexts, t, d], and how many of the tokens are the
/// context's, S32 [1, contexts].
class ZImage final : public Architecture {
 public:
  explicit ZImage(const zimage::TransformerConfig& config)
      : config_(config), sizes_(sizes_of(config)) {
    zimage::validate(config_);
  }

  const Sizes& sizes() const override { return sizes_; }
  schedulers::Learned learned() const override {
    schedulers::Learned out{.flow = schedulers::kFluxFlow,
                            .sampled = {.sampler = schedulers::Sampler::FLOW_MATCH_EULER,
                                        .shift = 6.0,
                                        .even_sigmas = true},
                            .trains_with_sampled_shift = true};
    out.flow.shift = out.sampled.shift;
    return out;
  }
  io::Json config() const override {
    io::Json out = zimage::config_json(config_);
    if (config_.control) {
      out.set("_control", zimage::control_config_json(*config_.control));
    }
    return out;
  }
  io::Json original_config() const override {
    fail("[zimage] the original release is one file: the target must end with .safetensors");
  }
  std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                        const nn::InitOptions& init) const override {
    return zimage::parameters(config_, options, init);
  }
  void check_divides(const mesh::Placement& place) const override {
    zimage::check_divides(config_, place);
  }

  Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                  const Inputs& inputs) const override {
    check(!inputs.image && !inputs.first_timestep && !inputs.size_ids && !inputs.pooled &&
              !inputs.guidance,
          "[zimage] an image's states, a first frame's timestep, sizes, pooled text or guidance "
          "are given, which this family does not take");
    // The network's time is 0 for noise, and its output the data minus the noise.
    zimage::TransformerInputs in{
        .latents = one_frame(inputs.latents, "zimage"),
        .t = (kTimesteps - convert(inputs.timestep, DType::F32)) / kTimesteps,
        .text = inputs.text,
        .text_fills = inputs.text_fills,
        .block_sum = inputs.block_sum,
        .control = inputs.control ? one_frame(inputs.control, "zimage") : Tensor(),
        .control_scale = inputs.control_scale,
        .dropout_key = inputs.dropout_key,
        .tap = inputs.tap};
    if (!inputs.cross_keys.empty()) {
      in.refined = {.tokens = squeeze(inputs.cross_keys.at(0), Axis(0)),
                    .lengths = squeeze(inputs.cross_keys.at(1), Axis(0))};
    }
    const zimage::TransformerOutputs out = zimage::transformer(params, config_, options, in);
    return {.prediction = expand_dims(-out.output, Axis(2)), .block_sum = out.block_sum};
  }

  std::string key_of_tap(const std::string& name) const override {
    return networks::key_of_tap(name, kTapNames);
  }

  std::vector<Tensor> cross_keys(std::span<const Tensor> params, const nn::ModelOptions& options,
                                 Tensor text, Tensor /*image*/) const override {
    const zimage::RefinedText refined = zimage::refined_text(params, config_, options, text);
    return {expand_dims(refined.tokens, Axis(0)), expand_dims(refined.lengths, Axis(0))};
  }
  std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                      int64_t text_tokens, int64_t /*images*/) const override {
    const int64_t filled = (text_tokens + kFill - 1) / kFill * kFill;
    const Shape tokens{options.activations_dtype, {1, contexts, filled, config_.dim}};
    const Shape lengths{DType::S32, {1, contexts}};
    return {{.name = "refined_text",
             .shape = tokens,
             .sharding = options.place.sharding({"", "activation_batch", "", ""}, tokens.dims)},
            {.name = "text_lengths",
             .shape = lengths,
             .sharding = options.place.sharding({"", "activation_batch"}, lengths.dims)}};
  }
  Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                        const Dims& latents) const override {
    const Shape shape{options.activations_dtype, {contexts, sizes_.tokens(latents), config_.dim}};
    return {.name = "block_sum",
            .shape = shape,
            .sharding = options.place.sharding(
                {"activation_batch", "activation_length", "activation_heads"}, shape.dims)};
  }

  /// Matrix products of all blocks, without embedders and head, which are small.
  double forward_flops(const Dims& latents, int64_t text_tokens) const override {
    const auto filled = [](int64_t tokens) {
      return static_cast<double>((tokens + kFill - 1) / kFill * kFill);
    };
    const auto d = static_cast<double>(config_.dim);
    const auto block = [&](double s) {  // attention; q, k, v and out; three of the feed-forward
      return 4 * s * s * d + 8 * s * d * d + 6 * s * d * static_cast<double>(config_.mlp_dim());
    };
    const double image = filled(sizes_.tokens(latents));
    const double text = filled(text_tokens);
    const double modulation = 8 * d * static_cast<double>(config_.modulation_dim());
    const auto refiners = static_cast<double>(config_.n_refiner_layers);
    return refiners * (block(image) + block(text) + modulation) +
           static_cast<double>(config_.n_layers) * (block(image + text) + modulation);
  }

 private:
  zimage::TransformerConfig config_;
  Sizes sizes_;
};

Network network(const zimage::TransformerConfig& config) {
  return Network(std::make_shared<const ZImage>(config));
}

/// The configuration from shapes; sizes that no tensor shows are those of the released models.
zimage::TransformerConfig config_from_shapes(const model_files::Checkpoint& checkpoint) {
  const CheckpointSizes sizes(checkpoint);
  zimage::TransformerConfig c;
  const Dims embedder = sizes.dims("all_x_embedder.2-1.weight", 2);
  c.dim = embedder[0];
  c.in_channels = embedder[1] / (kPatch * kPatch);
  c.n_layers = sizes.count("layers.{}.attention_norm1.weight");
  c.n_refiner_layers = sizes.count("noise_refiner.{}.attention_norm1.weight");
  const int64_t head = sizes.dims("layers.0.attention.norm_q.weight", 1)[0];
  check(head > 0 && c.dim % head == 0,
        "[weights] {}: width {} is not a multiple of the head width, {}", checkpoint.path(), c.dim,
        head);
  c.n_heads = c.dim / head;
  c.cap_feat_dim = sizes.dims("cap_embedder.1.weight", 2)[1];
  // The rotary channels per axis are in no file.
  const int64_t released = zimage::TransformerConfig().head_dim();
  check(head == released,
        "[weights] {}: the head width is {}, but {} in every released model\n"
        "  put a diffusers config.json with axes_dims next to the file",
        checkpoint.path(), head, released);
  return c;
}

/// The ControlNet's configuration from its tensors' shapes. Released ones add their hints at equal
/// distances: behind 15 of 30 layers, 6, or 3.
zimage::ControlConfig control_from_shapes(const model_files::Checkpoint& file,
                                          const zimage::TransformerConfig& transformer) {
  const CheckpointSizes sizes(file);
  zimage::ControlConfig c;
  const Dims& embedder = sizes.dims("control_all_x_embedder.2-1.weight", 2);
  check(embedder[0] == transformer.dim,
        "[weights] {}: the ControlNet has width {} (`control_all_x_embedder.2-1.weight`), but the "
        "transformer {}: it belongs to another model",
        file.path(), embedder[0], transformer.dim);
  c.control_in_dim = embedder[1] / (kPatch * kPatch);
  const int64_t hints = sizes.count("control_layers.{}.after_proj.weight");
  check(hints > 0 && hints <= transformer.n_layers,
        "[weights] {} has {} control layers (`control_layers.0.after_proj.weight`) for {} layers",
        file.path(), hints, transformer.n_layers);
  for (int64_t i = 0; i < hints; ++i) {
    c.control_layers_places.push_back(i * (transformer.n_layers / hints));
  }
  c.n_refiner_layers = sizes.count("control_noise_refiner.{}.attention_norm1.weight");
  // Version 2.1 has projections of the refiner's hints, 2.0 no refiner of its own.
  const bool has_hints =
      !c.has_own_refiner() || file.find("control_noise_refiner.0.after_proj.weight") != nullptr;
  const int64_t refined = !has_hints            ? 0
                          : c.has_own_refiner() ? c.n_refiner_layers
                                                : std::min(transformer.n_refiner_layers, hints);
  for (int64_t i = 0; i < refined; ++i) {
    c.control_refiner_layers_places.push_back(i);
  }
  return validated(file, c, [&](const auto& control) { zimage::validate(control, transformer); });
}

/// The ControlNet's configuration, from the file's config.json if it has one.
zimage::ControlConfig control_of(const model_files::Checkpoint& file,
                                 const zimage::TransformerConfig& transformer) {
  return file.config().is_object() ? zimage::parse_control_config(file.config(), transformer)
                                   : control_from_shapes(file, transformer);
}

Network made_of_config(const io::Json& config) { return network(zimage::parse_config(config)); }

/// From shapes, and with a ControlNet laid over it from the `config.json` of either that has one.
Network made_of_shapes(const model_files::Checkpoint& checkpoint) {
  const model_files::Checkpoint* control = checkpoint.module();
  zimage::TransformerConfig c = control != nullptr && checkpoint.config().is_object()
                                    ? zimage::parse_config(checkpoint.config())
                                    : config_from_shapes(checkpoint);
  c = validated(checkpoint, c, [](const auto& sizes) { zimage::validate(sizes); });
  if (control != nullptr) {
    c.control = control_of(*control, c);
  }
  return network(c);
}

std::optional<io::Json> released_config(std::string_view name) {
  if (name.find("Z-Image") == std::string_view::npos) {
    return std::nullopt;
  }
  return zimage::config_json({});
}

}  // namespace

std::string check_control_module(const model_files::Checkpoint& files) {
  const CheckpointSizes sizes(files);
  zimage::TransformerConfig c;  // any that the ControlNet fits
  const Dims& embedder = sizes.dims("control_all_x_embedder.2-1.weight", 2);
  const int64_t head = sizes.dims("control_layers.0.attention.norm_q.weight", 1)[0];
  const int64_t channels = embedder[1] / (kPatch * kPatch);
  c.dim = embedder[0];
  c.n_heads = head > 0 ? c.dim / head : 0;
  c.in_channels = channels % 2 == 0 ? channels : (channels - 1) / 2;
  c.n_refiner_layers =
      std::max(c.n_refiner_layers, sizes.count("control_noise_refiner.{}.attention_norm1.weight"));
  c.control = control_of(files, c);
  nn::SpecCollector specs([](const std::string&) { return DType::F32; }, {});
  zimage::open_control(specs, c);
  weights::check_tensors(files, specs.take());
  return fmt::format("version {}, hints behind {} layers",
                     !c.control->has_refiner_hints() ? "1"
                     : c.control->has_own_refiner()  ? "2.1"
                                                     : "2.0",
                     c.control->control_layers_places.size());
}

Maker zimage_family() {
  return {.class_name = zimage::kClassName,
          .from_config = made_of_config,
          .from_shapes = made_of_shapes,
          .released_config = released_config};
}

}  // namespace kinema::networks
