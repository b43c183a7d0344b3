#include "kinema/models/zimage/transformer.h"

#include "kinema/core/error.h"
#include "kinema/mesh/batch.h"
#include "kinema/models/zimage/block.h"
#include "kinema/models/zimage/control.h"
#include "kinema/models/zimage/embed.h"
#include "kinema/nn/attention_axes.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/quantized_modules.h"

namespace kinema::zimage {
namespace {

constexpr double kLastNormEpsilon = 1e-6;
constexpr double kMasked = -1e30;          // far below any score
constexpr const char* kPatchName = "2-1";  // rows and columns of a patch, its frames
constexpr std::array<std::string_view, 3> kStacks{"noise_refiner", "context_refiner", "layers"};

nn::Layers noise_refiner(const TransformerConfig& c) {
  return {std::string(kStacks[0]), c.n_refiner_layers};
}
nn::Layers context_refiner(const TransformerConfig& c) {
  return {std::string(kStacks[1]), c.n_refiner_layers};
}
nn::Layers main_layers(const TransformerConfig& c) { return {std::string(kStacks[2]), c.n_layers}; }

Tensor pad_token(const nn::Params& root, const char* name, const TransformerConfig& c) {
  return root.weight(name, {1, c.dim}, {"", "embed"}, nn::Init::normal(0.02));
}

/// The parameters outside the blocks.
struct Ends {
  Ends(const nn::Params& root, const TransformerConfig& c)
      : image(root / "all_x_embedder" / kPatchName, c.token_dim(), c.dim,
              {.out_axis = "mlp", .bias_axis = "mlp"}),
        image_pad(pad_token(root, "x_pad_token", c)),
        time(root / "t_embedder", c),
        text(root / "cap_embedder", c),
        text_pad(pad_token(root, "cap_pad_token", c)),
        modulation(
            root / "all_final_layer" / kPatchName / "adaLN_modulation" / "1", c.modulation_dim(),
            c.dim,
            {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp", .init = nn::Init::zeros()}),
        // Zero: the first prediction is the mean, regardless of the blocks.
        head(root / "all_final_layer" / kPatchName / "linear", c.dim, c.token_dim(),
             {.in_axis = "embed", .init = nn::Init::zeros()}) {}

  nn::Linear image;
  Tensor image_pad;
  TimeEmbedding time;
  CaptionEmbedding text;
  Tensor text_pad;
  nn::Linear modulation;
  nn::Linear head;
};

bool is_of_blocks(std::string_view key) {
  for (const std::string_view stack : kStacks) {
    if (key.starts_with(stack) && key.substr(stack.size()).starts_with('.')) {
      return true;
    }
  }
  return false;
}

void apply(const nn::InitOptions& options, nn::ParamSpec& spec) {
  if (spec.name.ends_with(".adaLN_modulation.0.bias") && options.gate_bias != 0.0) {
    spec.init.row_offsets = {0.0, options.gate_bias, 0.0, options.gate_bias};
  }
}

/// Whether text of `t` tokens, a multiple of kFill, can end before the last kFill of them.
bool needs_mask(int64_t t, bool text_fills) { return !text_fills && t > TransformerConfig::kFill; }

/// What attention adds to the scores: 0 for the tokens of a sample, pred [b, s], else far below.
Tensor mask_of(Tensor is_token) {
  const Shape shape{DType::F32, is_token.shape().dims};
  Graph& graph = is_token.graph();
  const Tensor added =
      select(is_token, constant(graph, 0.0, shape), constant(graph, kMasked, shape));
  return reshape(added, {shape.dims[0], 1, 1, shape.dims[1]});
}

/// The inputs that all blocks share. `is_token` may be empty.
Conditioning conditioning(const nn::ModelOptions& options, nn::Rope rope, Tensor is_token) {
  Conditioning out{.rope = rope, .attention = options.attention, .place = options.place};
  out.attention.precision = options.precision;
  out.attention.axes = nn::self_attention_axes(options.place);
  if (is_token) {
    out.attention.bias = mask_of(is_token);
    // Kinds that exchange keys between devices take no mask.
    out.attention.kind = out.attention.axes.mesh.axes.empty() &&
                                 options.attention.kind != nn::AttentionKind::DOT_PRODUCT
                             ? nn::AttentionKind::FLASH
                             : nn::AttentionKind::DOT_PRODUCT;
  }
  return out;
}

/// FLUX_OPTIMIZED keeps queries, keys, values and attention's result.
RematPolicy remat_of(const RematPolicy& asked) {
  using Kind = RematPolicy::Kind;
  return asked.kind == Kind::FLUX_OPTIMIZED
             ? RematPolicy{.kind = Kind::CUSTOM,
                           .saved = {kQueryKeyValue, kAttentionOutput},
                           .offloaded = {}}
             : asked;
}

using Taps = std::function<void(const std::string& name, Tensor value)>;

/// x with zeros where pred [b, s] is false; x itself without it.
Tensor kept_where(Tensor is_token, Tensor x) {
  if (!is_token) {
    return x;
  }
  Dims dims(static_cast<size_t>(x.rank()), 1);
  dims[0] = is_token.dim(0);
  dims[1] = is_token.dim(1);
  return x * nn::as(reshape(is_token, dims), x.dtype());
}

/// Tokens through the blocks of one stack; `hints` [layers, b, s, d] are added behind them.
Tensor through(nn::Bound& bound, const nn::Layers& layers, const TransformerConfig& config,
               const nn::ModelOptions& options, Block::Modulated modulated, Tensor x,
               const Conditioning& given, const Taps& tap, const char* name, Tensor is_token,
               std::span<const Tensor> hints = {}) {
  const nn::Bound::Options how{.remat = remat_of(options.remat), .has_tap = tap != nullptr};
  return bound.run(
      layers, {options.place(x, kTokenAxes)}, hints, how,
      [&](const nn::Bound::Layer& layer, std::span<const Tensor> carry) -> std::vector<Tensor> {
        BlockTap here;
        const std::string path = name + std::to_string(layer.number);
        if (tap && layer.number >= 0) {
          here = [&](const char* what, Tensor value) {
            const bool of_tokens = value.rank() > 2;
            tap(path + "." + what, of_tokens ? kept_where(is_token, value) : value);
          };
        }
        Tensor y = Block(layer.params, config, modulated)(carry[0], given, here);
        if (!layer.given.empty()) {
          y = y + layer.given[0];
        }
        if (here) {
          tap(path, kept_where(is_token, y));
        }
        return {y};
      })[0];
}

void check_text(Tensor text, int64_t b, const TransformerConfig& c) {
  check(text && text.rank() == 3 && text.dim(0) == b && text.dim(1) > 0 &&
            text.dim(2) == c.cap_feat_dim,
        "[zimage] text is {} but must be [{}, t, {}]", text ? to_string(text.shape()) : "not given",
        b, c.cap_feat_dim);
  const int64_t t = filled(text.dim(1));
  check(t + 2 <= c.axes_lens[0], "[zimage] text of {} tokens is too long: there are {} positions",
        text.dim(1), c.axes_lens[0]);
}

RefinedText refine(nn::Bound& bound, const Ends& ends, const TransformerConfig& config,
                   const nn::ModelOptions& options, Tensor text, bool text_fills, const Taps& tap) {
  check_text(text, text.dim(0), config);
  Graph& graph = text.graph();
  const int64_t b = text.dim(0);
  const int64_t t = filled(text.dim(1));
  const Tensor lengths = text_lengths(text);
  Tensor x;
  {
    const Scope scope(graph, "cap_embedder");
    x = ends.text(text, options.activations_dtype, options.precision);
    x = pad(x, Axis(1), 0, t - text.dim(1));
    const Tensor is_text = reshape(is_before(lengths, t), {b, t, 1});
    x = select(broadcast_to(is_text, {b, t, config.dim}), x,
               broadcast_to(nn::as(ends.text_pad, x.dtype()), {b, t, config.dim}));
  }
  RefinedText out{.tokens = {}, .lengths = filled(lengths)};
  const Tensor is_token = needs_mask(t, text_fills) ? is_before(out.lengths, t) : Tensor();
  Conditioning given = conditioning(options, rope_of(text_positions(graph, t), config), is_token);
  if (!is_token) {  // a few hundred tokens, which do not pay for exchanges between devices
    given.attention.kind = nn::AttentionKind::DOT_PRODUCT;
  }
  out.tokens = through(bound, context_refiner(config), config, options, Block::Modulated::NO, x,
                       given, tap, "context_refiner", is_token);
  return out;
}

/// The rotary tables in the reference's form, [b, s, head_dim / 2].
void offer_positions(Tensor positions, const nn::Rope& rope, Tensor is_token, const Taps& tap) {
  tap("pos_ids", positions);
  const auto offer = [&](const char* name, Tensor table) {
    const Tensor angles = slice(table, Axis(4), 1, 1);  // the first sine of a pair is negated
    const Tensor flat = reshape(angles, {table.dim(0), table.dim(1), table.dim(3)});
    tap(name, kept_where(is_token, flat));
  };
  offer("rope_cos", rope.cos);
  offer("rope_sin", rope.sin);
}

/// What the control layers see before text is joined.
struct Control {
  Tensor tokens;  // of the control latents, refined
  Tensor image;   // the image tokens, with the hints behind the refiner's layers
  Tensor scale;   // of each control layer
};

/// The control latents through their refiner. `embedded`, `image`: image tokens before and after
/// the transformer's own refiner, which only the ControlNet's run of it gives hints to.
Control refined_control(nn::Bound& bound, const Ends& ends, const TransformerConfig& config,
                        const nn::ModelOptions& options, const TransformerInputs& inputs,
                        Tensor embedded, Tensor image, const Conditioning& given) {
  const auto layers = std::ssize(config.control->control_layers_places);
  Control out{.tokens = {}, .image = image, .scale = inputs.control_scale};
  if (!out.scale) {
    out.scale = constant(embedded.graph(), 1.0, Shape{DType::F32, {layers}});
  }
  const ControlBranch branch(bound, config, options);
  const RefinedControl refined =
      branch.refined(branch.embedded(inputs.control, ends.image_pad), embedded,
                     reshape(slice(out.scale, Axis(0), 0, 1), {}), given);
  out.tokens = refined.tokens;
  if (refined.refiner_hints) {
    out.image =
        through(bound, noise_refiner(config), config, options, Block::Modulated::YES, embedded,
                given, {}, "noise_refiner", {}, std::span(&refined.refiner_hints, 1));
  }
  return out;
}

/// The hint behind each main layer that has one.
void offer_hints(Tensor hints, const ControlConfig& control, Tensor is_token, const Taps& tap) {
  for (const int64_t place : control.control_layers_places) {
    if (tap) {
      tap("hint" + std::to_string(place),
          kept_where(is_token, squeeze(slice(hints, Axis(0), place, 1), Axis(0))));
    }
  }
}

/// Image and text tokens as one sequence, [b, s, d], and which are a sample's, pred [b, s], or
/// empty.
struct Unified {
  Tensor tokens;
  Tensor is_token;
};

/// Image tokens [b, s, d] and text through all blocks.
Unified through_blocks(nn::Bound& bound, const Ends& ends, const TransformerConfig& config,
                       const nn::ModelOptions& options, const TransformerInputs& inputs,
                       const RefinedText& text, Tensor image, Tensor time) {
  Graph& graph = image.graph();
  const int64_t t = text.tokens.dim(1);
  const bool masked = needs_mask(t, inputs.text_fills);
  const Tensor lengths =
      masked ? text.lengths : constant(graph, static_cast<double>(t), Shape{DType::S32, {1}});
  const Tensor of_image =
      image_positions(lengths, inputs.latents.dim(2) / TransformerConfig::kPatch,
                      inputs.latents.dim(3) / TransformerConfig::kPatch);
  const Tensor of_text = broadcast_to(text_positions(graph, t), {of_image.dim(0), t, 3});
  const Tensor positions = concatenate({of_image, of_text}, Axis(1));
  const Tensor embedded = fill_up(image, ends.image_pad);
  const int64_t all = embedded.dim(1) + t;
  Tensor is_token;
  if (masked) {
    is_token = is_before(
        lengths + constant(graph, static_cast<double>(embedded.dim(1)), Shape{DType::S32, {}}),
        all);
  }
  Conditioning given = conditioning(options, rope_of(of_image, config), {});
  given.time = time;
  nn::check_attention(given.attention, embedded.dim(1), embedded.dim(1));
  image = through(bound, noise_refiner(config), config, options, Block::Modulated::YES, embedded,
                  given, inputs.tap, "noise_refiner", {});
  const Control control =
      inputs.control ? refined_control(bound, ends, config, options, inputs, embedded, image, given)
                     : Control();
  given = conditioning(options, rope_of(positions, config), is_token);
  given.time = time;
  if (!masked) {
    nn::check_attention(given.attention, all, all);
  }
  Tensor x = concatenate({image, text.tokens}, Axis(1));
  if (inputs.tap) {
    inputs.tap("unified", kept_where(is_token, x));
    offer_positions(positions, given.rope, is_token, inputs.tap);
  }
  std::vector<Tensor> hints;
  if (control.tokens) {
    hints = {ControlBranch(bound, config, options)
                 .hints(concatenate({control.tokens, text.tokens}, Axis(1)),
                        concatenate({control.image, text.tokens}, Axis(1)), control.scale, given)};
    offer_hints(hints.front(), *config.control, is_token, inputs.tap);
  }
  x = through(bound, main_layers(config), config, options, Block::Modulated::YES, x, given,
              inputs.tap, "layer", is_token, hints);
  return {x, is_token};
}

void check_inputs(const TransformerInputs& in, const TransformerConfig& c,
                  const nn::ModelOptions& options) {
  check(in.latents.rank() == 4 && in.latents.dim(1) == c.in_channels,
        "[zimage] latents are {} but must be [b, {}, h, w]", to_string(in.latents.shape()),
        c.in_channels);
  const int64_t b = in.latents.dim(0);
  check(in.t && in.t.rank() == 1 && (in.t.dim(0) == b || in.t.dim(0) == 1),
        "[zimage] t is {} but must be [{}], or [1] for all samples",
        in.t ? to_string(in.t.shape()) : "not given", b);
  check(options.dropout == 0.0, "[zimage] dropout is {} but this family has none", options.dropout);
  for (const int64_t axis : {1, 2}) {
    const int64_t most = c.axes_lens[static_cast<size_t>(axis)];
    const int64_t tokens = in.latents.dim(axis + 1) / TransformerConfig::kPatch;
    check(tokens <= most,
          "[zimage] latents of {} x {} have {} tokens along a side, expected at "
          "most {}",
          in.latents.dim(2), in.latents.dim(3), tokens, most);
  }
  check(!in.control || c.control.has_value(),
        "[zimage] control latents are given, but the network has no ControlNet");
  if (in.block_sum) {
    return;
  }
  if (!in.refined.tokens) {
    check_text(in.text, b, c);
    return;
  }
  const Shape& tokens = in.refined.tokens.shape();
  check(tokens.rank() == 3 && tokens.dims[0] == b &&
            tokens.dims[1] % TransformerConfig::kFill == 0 && tokens.dims[2] == c.dim &&
            in.refined.lengths.shape() == Shape{DType::S32, {b}},
        "[zimage] refined text is {} but must be [{}, t, {}], t a multiple of {}",
        to_string(tokens), b, c.dim, TransformerConfig::kFill);
}

}  // namespace

void check_divides(const TransformerConfig& config, const mesh::Placement& place) {
  mesh::check_divides(place, "attention heads", config.n_heads, "heads");
  mesh::check_divides(place, "features of a token", config.dim, "embed");
  mesh::check_divides(place, "features of the feed-forward layer", config.mlp_dim(), "mlp");
}

DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage) {
  for (const std::string_view part :
       {"t_embedder.", "norm", "cap_embedder.0.", "lora_scale", "weight_scale"}) {
    if (key.find(part) != std::string_view::npos) {
      return DType::F32;
    }
  }
  const bool is_narrow = weights_storage && is_of_blocks(key) && key.ends_with(".weight") &&
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
  const Ends ends(nn::Params(specs, ""), config);
  const auto open = [&](const nn::Layers& layers, Block::Modulated modulated) {
    nn::open_layers(specs, layers, options.scan_layers,
                    [&](const nn::Params& layer) { const Block block(layer, config, modulated); });
  };
  open(noise_refiner(config), Block::Modulated::YES);
  open(context_refiner(config), Block::Modulated::NO);
  open(main_layers(config), Block::Modulated::YES);
  if (config.control) {
    open_control(specs, config);
  }
  nn::check_module_path(options.quantization, specs.products(), nn::plain_module_path);
  std::vector<nn::ParamSpec> result = specs.take();
  for (nn::ParamSpec& spec : result) {
    apply(init, spec);
    if (spec.layers > 0 && spec.layer_shape().rank() == 2 && !spec.is_low_rank()) {
      spec.memory = options.weights_memory;
    }
  }
  return result;
}

RefinedText refined_text(std::span<const Tensor> params, const TransformerConfig& config,
                         const nn::ModelOptions& options, Tensor text, bool text_fills) {
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path));
  const Ends ends(bound.root(), config);
  return refine(bound, ends, config, options, text, text_fills, {});
}

TransformerOutputs transformer(std::span<const Tensor> params, const TransformerConfig& config,
                               const nn::ModelOptions& options, const TransformerInputs& inputs) {
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path),
                  nn::Dropout(options.low_rank_dropout, inputs.dropout_key));
  const Ends ends(bound.root(), config);
  check_inputs(inputs, config, options);
  Graph& graph = inputs.latents.graph();
  const DType dtype = options.activations_dtype;
  const Precision precision = options.precision;
  const auto offer = [&](const char* name, Tensor value) {
    if (inputs.tap) {
      inputs.tap(name, value);
    }
    return value;
  };
  Tensor time;
  {
    const Scope scope(graph, "t_embedder");
    const TimeEmbedding::Result e = ends.time(inputs.t, precision);
    offer("time_sinusoid", e.sinusoid);
    time = nn::as(offer("t_embedder", e.time), dtype);
  }
  Tensor x;
  {
    const Scope scope(graph, "x_embedder");
    x = offer("x_embedder", ends.image(nn::as(pack(inputs.latents), dtype), precision));
    x = options.place(x, kTokenAxes);
  }
  const auto final_layer = [&](Tensor tokens) {
    const Scope scope(graph, "final_layer");
    const Tensor scale = expand_dims(ends.modulation(silu(time), precision), Axis(1));
    const Tensor wide = layer_norm(nn::widened(tokens), kLastNormEpsilon);
    return ends.head(nn::as(wide * (1.0 + nn::as(scale, wide.dtype())), dtype), precision);
  };
  const Tensor before = x;
  Tensor block_sum = inputs.block_sum;
  if (block_sum) {
    check(block_sum.shape() == before.shape(), "[zimage] block_sum is {} but must be {}",
          to_string(block_sum.shape()), to_string(before.shape()));
    x = before + block_sum;
  } else {
    const RefinedText text =
        inputs.refined.tokens
            ? inputs.refined
            : refine(bound, ends, config, options, inputs.text, inputs.text_fills, inputs.tap);
    const Unified all = through_blocks(bound, ends, config, options, inputs, text, x, time);
    if (inputs.tap) {
      inputs.tap("final_layer", kept_where(all.is_token, final_layer(all.tokens)));
    }
    x = options.place(slice(all.tokens, Axis(1), 0, before.dim(1)), kTokenAxes);
    block_sum = x - before;
  }
  return {.output = unpack(final_layer(x), inputs.latents.dim(2), inputs.latents.dim(3)),
          .block_sum = block_sum};
}

}  // namespace kinema::zimage
