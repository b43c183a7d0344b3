#include "kinema/models/wan/transformer.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/mesh/batch.h"
#include "kinema/models/wan/animate.h"
#include "kinema/models/wan/block_stack.h"
#include "kinema/models/wan/control_branch.h"
#include "kinema/models/wan/embed.h"
#include "kinema/models/wan/fun_inputs.h"
#include "kinema/models/wan/products.h"
#include "kinema/nn/attention_axes.h"
#include "kinema/nn/modulation.h"
#include "kinema/nn/patch_embedding.h"
#include "kinema/nn/quantized_modules.h"

namespace kinema::wan {
namespace {

BlockRow main_blocks(const TransformerConfig& c) {
  return {.prefix = "blocks", .layers = c.num_layers};
}

/// The parameters outside the blocks.
struct Ends {
  Ends(const nn::Params& root, const TransformerConfig& c)
      : patch(root / "patch_embedding", c.in_channels, c.dim(), c.patch_size),
        condition(root / "condition_embedder", c),
        modulation(root.weight("scale_shift_table", {1, 2, c.dim()}, {"", "", ""},
                               nn::Init::normal(1.0 / std::sqrt(static_cast<double>(c.dim()))))),
        // Zero: the first prediction is the velocity's mean, regardless of the blocks.
        head(root / "proj_out", c.dim(),
             c.out_channels * c.patch_size[0] * c.patch_size[1] * c.patch_size[2],
             {.in_axis = "embed", .init = nn::Init::zeros()}) {
    if (c.control_layers() > 0) {
      control.emplace(root, c);
    }
    if (c.ref_conv_channels > 0) {
      reference.emplace(root, c);
    }
    if (c.control_adapter_channels > 0) {
      camera.emplace(root, c);
    }
    if (c.animate) {
      animate.emplace(root, c);
    }
  }

  nn::PatchEmbedding patch;
  ConditionEmbedder condition;
  Tensor modulation;
  nn::Linear head;
  std::optional<ControlBranch> control;
  std::optional<ReferenceTokens> reference;
  std::optional<CameraAdapter> camera;
  std::optional<Animate> animate;
};

bool is_of_block(std::string_view key) {
  return key.starts_with("blocks.") || key.starts_with("vace_blocks.");
}

void apply(const nn::InitOptions& options, nn::ParamSpec& spec) {
  if (is_of_block(spec.name) && spec.name.ends_with("scale_shift_table") &&
      options.gate_bias != 0.0) {
    spec.init.row_offsets = {0.0, 0.0, options.gate_bias, 0.0, 0.0, options.gate_bias};
  }
  if (options.text == nn::InitOptions::Text::XAVIER && spec.name.ends_with(".weight") &&
      spec.name.starts_with("condition_embedder.text_embedder.")) {
    spec.init = nn::Init::xavier();
  }
}

void check_keys(const CrossKeys& keys, const TransformerConfig& c, int64_t b) {
  const auto fits = [&](Tensor x) {
    return x.rank() == 5 && x.dim(0) == c.all_layers() && x.dim(1) == b &&
           x.dim(3) == c.num_attention_heads && x.dim(4) == c.attention_head_dim;
  };
  check(fits(keys.key) && keys.value.shape() == keys.key.shape(),
        "[wan] keys are {} and values {} but both must be [{}, {}, t, {}, {}]",
        to_string(keys.key.shape()), to_string(keys.value.shape()), c.all_layers(), b,
        c.num_attention_heads, c.attention_head_dim);
  check(static_cast<bool>(keys.image_key) == (c.added_kv_proj_dim > 0) &&
            static_cast<bool>(keys.image_value) == (c.added_kv_proj_dim > 0) &&
            (!keys.image_key || fits(keys.image_key)),
        "[wan] the config has added_kv_proj_dim {}: image keys must be there when it is above 0",
        c.added_kv_proj_dim);
}

/// `own_tokens`: those of the video, `tokens`: with those in front of it.
void check_inputs(const TransformerInputs& in, const TransformerConfig& c,
                  const nn::ModelOptions& options, int64_t own_tokens, int64_t tokens) {
  const int64_t b = in.hidden_states.dim(0);
  const Tensor t = in.timestep;
  const bool is_one = t.rank() == 1 && (t.dim(0) == 1 || t.dim(0) == b);
  check(is_one || (t.rank() == 2 && t.dim(1) == own_tokens && t.dim(0) == b),
        "[wan] timestep is {} but must be [{}], [1] for all samples, or [{}, {}] for one per token",
        to_string(t.shape()), b, b, own_tokens);
  check(options.dropout >= 0.0 && options.dropout < 1.0,
        "[wan] dropout is {} but must be at least 0 and below 1", options.dropout);
  check(!in.cfg_batch || (b % 2 == 0 && !options.place.active()),
        "[wan] cfg_batch with {} samples{}, expected an even number on one device", b,
        options.place.active() ? " over several devices" : "");
  if (in.block_sum) {
    const Shape sum{options.activations_dtype, {b, tokens, c.dim()}};
    check(in.block_sum.shape() == sum, "[wan] block_sum is {} but must be {}",
          to_string(in.block_sum.shape()), to_string(sum));
    return;
  }
  check(static_cast<bool>(in.control) == (c.control_layers() > 0),
        "[wan] the config has {} and {} given",
        c.control_layers() > 0 ? "vace_layers" : "no vace_layers",
        in.control ? "control latents are" : "no control latents are");
  if (in.keys) {
    check_keys(*in.keys, c, b);
    return;
  }
  const Tensor text = in.encoder_hidden_states;
  check(text.rank() == 3 && text.dim(0) == b && text.dim(2) == c.text_dim,
        "[wan] encoder_hidden_states is {} but must be [{}, t, {}]", to_string(text.shape()), b,
        c.text_dim);
  check(static_cast<bool>(in.encoder_hidden_states_image) == (c.image_dim > 0),
        "[wan] the config has image_dim {} but {}", c.image_dim,
        c.image_dim > 0 ? "no encoder_hidden_states_image was given"
                        : "an encoder_hidden_states_image was given");
  check(options.dropout >= 0.0 && options.dropout < 1.0,
        "[wan] dropout is {} but must be at least 0 and below 1", options.dropout);
}

/// Throws an Error unless the inputs of Wan Fun are given where the network has them.
void check_fun_inputs(const TransformerInputs& in, const TransformerConfig& c) {
  const Dims& x = in.hidden_states.shape().dims;
  const auto check_input = [](Tensor given, int64_t channels, const Dims& wanted, const char* name,
                              const char* key) {
    check(channels > 0 ? given && given.shape().dims == wanted : !given,
          "[wan] {} is {} but must be {} ({} is {})", name,
          given ? to_string(given.shape()) : "not given",
          channels > 0 ? to_string(wanted) : "absent", key, channels);
  };
  check_input(in.reference, c.ref_conv_channels, {x[0], c.ref_conv_channels, 1, x[3], x[4]},
              "the reference image", "in_dim_ref_conv");
  const int64_t n = c.control_adapter_shrink;
  check_input(in.camera, c.control_adapter_channels,
              {x[0], c.control_adapter_channels, x[2], n * x[3], n * x[4]}, "the camera's path",
              "in_dim_control_adapter");
}

/// Throws an Error unless poses and faces are given to a Wan-Animate network of this width, and to
/// no other.
void check_animate_inputs(const TransformerInputs& in, const TransformerConfig& c) {
  const Dims& x = in.hidden_states.shape().dims;
  check(c.animate.has_value() == static_cast<bool>(in.poses) &&
            c.animate.has_value() == static_cast<bool>(in.faces),
        "[wan] {}",
        c.animate ? "an Animate transformer needs poses and faces, expected both"
                  : "poses or faces are given to a transformer that takes none");
  if (!c.animate) {
    return;
  }
  const Dims poses{x[0], c.animate->latent_channels, x[2] - 1, x[3], x[4]};
  check(x[2] > 1 && in.poses.shape().dims == poses, "[wan] poses are {} but must be {}",
        to_string(in.poses.shape()), to_string(poses));
  const int64_t size = c.animate->motion_size();
  const Dims pictures{x[0], 3, 4 * (x[2] - 2) + 1, size, size};
  const Dims tokens{x[0], x[2], c.animate->face_heads + 1, c.dim()};
  check(in.faces.shape().dims == pictures || in.faces.shape().dims == tokens,
        "[wan] faces are {} but must be pictures {} or tokens {}", to_string(in.faces.shape()),
        to_string(pictures), to_string(tokens));
}

/// One timestep for each of `more` tokens in front, that of the last token, where there is one for
/// each token.
Tensor with_more_timesteps(Tensor timestep, int64_t more) {
  if (timestep.rank() < 2 || more == 0) {
    return timestep;
  }
  const Tensor last = slice(timestep, Axis(1), timestep.dim(1) - 1, 1);
  return concatenate({broadcast_to(last, {timestep.dim(0), more}), timestep}, Axis(1));
}

/// The rotary tables in the reference's form: [1, s, 1, head_dim], each value twice, sines
/// positive.
void offer_rope(const nn::Rope& rope, const TransformerInputs& inputs) {
  const Dims dims{1, rope.cos.dim(0), 1, 2 * rope.cos.dim(2)};
  const std::vector<float> signs{-1.0F, 1.0F};
  inputs.tap("rope_cos", reshape(rope.cos, dims));
  inputs.tap("rope_sin", reshape(rope.sin * constant_f32(rope.sin.graph(), {2}, signs), dims));
}

}  // namespace

void check_divides(const TransformerConfig& config, const mesh::Placement& place) {
  mesh::check_divides(place, "attention heads", config.num_attention_heads, "heads");
  mesh::check_divides(place, "features of a token", config.dim(), "embed");
  mesh::check_divides(place, "features of the feed-forward layer", config.ffn_dim, "mlp");
}

DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage) {
  for (const std::string_view part : {"norm", "condition_embedder", "scale_shift_table",
                                      "motion_synthesis_weight", "lora_scale", "weight_scale"}) {
    if (key.find(part) != std::string_view::npos) {
      return DType::F32;
    }
  }
  const bool is_narrow = weights_storage && is_of_block(key) && key.ends_with(".weight") &&
                         key.find(".lora_") == std::string_view::npos;
  return is_narrow ? *weights_storage : weights_dtype;
}

std::vector<nn::ParamSpec> parameters(const TransformerConfig& config,
                                      const nn::ModelOptions& options,
                                      const nn::InitOptions& init) {
  validate(config);
  nn::SpecCollector specs(
      [&](const std::string& key) {
        return parameter_dtype(key, options.weights_dtype, options.weights_storage);
      },
      options.low_ranks);
  const nn::Params root(specs, "");
  const Ends ends(root, config);
  const BlockRow row = main_blocks(config);
  specs.set_layers(options.scan_layers ? row.layers : 0);
  for (int64_t i = 0; i < (options.scan_layers ? 1 : row.layers); ++i) {
    const Block block(root / (options.scan_layers ? row.stacked_key() : row.key(i)), config);
  }
  if (ends.control) {
    specs.set_layers(options.scan_layers ? config.control_layers() : 0);
    ControlBranch::open_blocks(root, config, options.scan_layers);
  }
  if (ends.animate) {
    specs.set_layers(options.scan_layers ? Animate::adapters(config) : 0);
    Animate::open_adapters(root, config, options.scan_layers);
  }
  nn::check_module_path(options.quantization, specs.products(), module_path);
  std::vector<nn::ParamSpec> result = specs.take();
  for (nn::ParamSpec& spec : result) {
    apply(init, spec);
    if (spec.layers > 0 && spec.layer_shape().rank() == 2 && !spec.is_low_rank()) {
      spec.memory = options.weights_memory;
    }
  }
  return result;
}

CrossKeys cross_keys(std::span<const Tensor> params, const TransformerConfig& config,
                     const nn::ModelOptions& options, Tensor text, Tensor image) {
  const std::vector<nn::ParamSpec> specs = parameters(config, options);
  nn::Binder binder(specs, params, nn::quantized_products(options.quantization, module_path));
  const nn::Params root(binder, "");
  const Ends ends(root, config);
  const Precision precision = options.precision;
  Graph& graph = text.graph();
  {
    const Scope scope(graph, "condition_embedder");
    text = ends.condition.text(nn::as(text, options.activations_dtype), precision);
    if (image) {
      image = ends.condition.image(nn::as(image, options.activations_dtype), precision);
    }
  }
  const BlockParameters parameters{specs, params, binder, config, options};
  const CrossKeys keys = cross_keys_of(main_blocks(config), parameters, text, image);
  return ends.control
             ? joined(keys, cross_keys_of(ControlBranch::row(config), parameters, text, image))
             : keys;
}

Tensor face_tokens(std::span<const Tensor> params, const TransformerConfig& config,
                   const nn::ModelOptions& options, Tensor pictures) {
  const std::vector<nn::ParamSpec> specs = parameters(config, options);
  nn::Binder binder(specs, params, nn::quantized_products(options.quantization, module_path));
  const Ends ends(nn::Params(binder, ""), config);
  check(ends.animate.has_value(), "[wan] this transformer reads no faces");
  return ends.animate->face_tokens(pictures, options.activations_dtype, options.precision, {});
}

Tensor token_timesteps(Tensor first, Tensor others, Tensor video, const TransformerConfig& config) {
  const std::array<int64_t, 3> grid = patch_grid(video, config);
  const int64_t b = video.dim(0);
  const auto tokens = [&](Tensor t, int64_t frames) {
    return broadcast_to(reshape(t, {b, 1}), {b, frames * grid[1] * grid[2]});
  };
  return grid[0] == 1 ? tokens(first, 1)
                      : concatenate({tokens(first, 1), tokens(others, grid[0] - 1)}, Axis(1));
}

Tensor transformer(std::span<const Tensor> params, const TransformerConfig& config,
                   const nn::ModelOptions& options, const TransformerInputs& inputs) {
  return transformer_outputs(params, config, options, inputs).velocity;
}

TransformerOutputs transformer_outputs(std::span<const Tensor> params,
                                       const TransformerConfig& config,
                                       const nn::ModelOptions& options,
                                       const TransformerInputs& inputs) {
  const std::vector<nn::ParamSpec> specs = parameters(config, options);
  nn::Binder binder(specs, params, nn::quantized_products(options.quantization, module_path));
  const nn::Dropout low_rank_dropout(options.low_rank_dropout, inputs.dropout_key);
  binder.set_low_rank_dropout(low_rank_dropout);
  const nn::Params root(binder, "");
  const Ends ends(root, config);
  Graph& graph = inputs.hidden_states.graph();
  const DType dtype = options.activations_dtype;
  const Precision precision = options.precision;
  const auto offer = [&](const char* name, Tensor value) {
    if (inputs.tap) {
      inputs.tap(name, value);
    }
    return value;
  };
  const std::array<int64_t, 3> grid = patch_grid(inputs.hidden_states, config);
  const int64_t own_tokens = grid[0] * grid[1] * grid[2];
  // A reference image is a frame in front of the video.
  std::array<int64_t, 3> all_frames = grid;
  all_frames[0] += ends.reference ? 1 : 0;
  const int64_t tokens = all_frames[0] * grid[1] * grid[2];
  check_fun_inputs(inputs, config);
  check_animate_inputs(inputs, config);
  check_inputs(inputs, config, options, own_tokens, tokens);
  Conditioning given;
  given.attention = options.attention;
  given.attention.precision = precision;
  given.attention.axes = nn::self_attention_axes(options.place);
  nn::check_attention(given.attention, tokens, tokens);
  given.place = options.place;
  given.dropout = nn::Dropout(options.dropout, inputs.dropout_key);
  given.low_rank_dropout = low_rank_dropout;
  given.cfg_batch = inputs.cfg_batch;
  Tensor x;
  {
    const Scope scope(graph, "patch_embedding");
    x = offer("patch_embed", ends.patch(nn::as(inputs.hidden_states, dtype), precision));
    if (ends.camera) {
      const Tensor map = offer("camera", (*ends.camera)(inputs.camera, dtype, precision));
      x = x + reshape(transpose(map, {0, 2, 3, 4, 1}), x.shape().dims);
    }
    if (ends.animate) {
      x = x + ends.animate->pose_tokens(inputs.poses, dtype, precision, inputs.tap);
    }
    if (ends.reference) {
      x = concatenate({(*ends.reference)(inputs.reference, dtype, precision), x}, Axis(1));
    }
    x = options.place(x, kTokenAxes);
    given.rope =
        nn::rope_3d(graph, all_frames, config.attention_head_dim, options.riflex_frequency);
    if (inputs.tap) {
      offer_rope(given.rope, inputs);
    }
  }
  TimeEmbedding time;
  {
    const Scope scope(graph, "condition_embedder");
    time =
        ends.condition.time(with_more_timesteps(inputs.timestep, tokens - own_tokens), precision);
    offer("time_sinusoid", time.sinusoid);
    offer("temb", time.temb);
    offer("timestep_proj", time.proj);
    Dims rows = time.temb.shape().dims;
    rows.insert(rows.end() - 1, 6);
    given.time = reshape(time.proj, rows);
    given.keys = inputs.keys;
    const bool embed = !inputs.keys && !inputs.block_sum;
    if (embed) {
      given.text = offer("text_embed", ends.condition.text(
                                           nn::as(inputs.encoder_hidden_states, dtype), precision));
    }
    if (embed && config.image_dim > 0) {
      given.image =
          offer("image_embed",
                ends.condition.image(nn::as(inputs.encoder_hidden_states_image, dtype), precision));
    }
  }
  const Tensor before = x;
  if (inputs.block_sum) {
    x = before + inputs.block_sum;
  } else {
    const BlockParameters parameters{specs, params, binder, config, options};
    const auto given_to = [&](const BlockRow& row) {
      Conditioning own = given;
      if (given.keys && ends.control) {
        own.keys = keys_of(row, *given.keys);
      }
      return own;
    };
    Residuals hints;
    if (ends.control) {
      hints = ends.control->hints(x, inputs.control, inputs.control_scale, parameters,
                                  given_to(ControlBranch::row(config)), inputs.tap);
    }
    if (ends.animate) {
      const Tensor faces =
          inputs.faces.rank() == 4
              ? nn::as(inputs.faces, dtype)
              : ends.animate->face_tokens(inputs.faces, dtype, precision, inputs.tap);
      hints = Animate::residuals(faces, parameters, inputs.tap);
    }
    const BlockRow row = main_blocks(config);
    x = run_blocks(x, row, parameters, given_to(row), hints, inputs.tap);
  }
  const Tensor block_sum = inputs.block_sum ? inputs.block_sum : x - before;
  const Scope scope(graph, "proj_out");
  const Tensor temb = time.temb.rank() == 2 ? expand_dims(time.temb, Axis(1)) : time.temb;
  const std::vector<Tensor> m = split(ends.modulation, Axis(1), 2);
  if (inputs.tap) {
    offer("norm_out", layer_norm(nn::widened(x), config.eps));
  }
  x = ends.head(nn::modulated_norm(x, m[0] + temb, m[1] + temb, config.eps), precision);
  x = tokens > own_tokens ? slice(x, Axis(1), tokens - own_tokens, own_tokens) : x;
  return {.velocity = unpatchify(offer("proj_out", x), grid, config), .block_sum = block_sum};
}

}  // namespace kinema::wan
