#include "kinema/models/flux/transformer.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/mesh/batch.h"
#include "kinema/models/flux/block.h"
#include "kinema/models/flux/embed.h"
#include "kinema/nn/attention_axes.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/modulation.h"
#include "kinema/nn/quantized_modules.h"

namespace kinema::flux {
namespace {

constexpr double kNormEpsilon = 1e-6;

nn::Layers double_blocks(const TransformerConfig& c) {
  return {"transformer_blocks", c.num_layers};
}
nn::Layers single_blocks(const TransformerConfig& c) {
  return {"single_transformer_blocks", c.num_single_layers};
}

/// The parameters outside the blocks.
struct Ends {
  Ends(const nn::Params& root, const TransformerConfig& c)
      : image(root / "x_embedder", c.in_channels, c.dim(), {.out_axis = "mlp", .bias_axis = "mlp"}),
        text(root / "context_embedder", c.joint_attention_dim, c.dim(),
             {.out_axis = "mlp", .bias_axis = "mlp"}),
        condition(root / "time_text_embed", c),
        modulation(
            root / "norm_out" / "linear", c.dim(), 2 * c.dim(),
            {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp", .init = nn::Init::zeros()}),
        // Zero: the first prediction is the velocity's mean, regardless of the blocks.
        head(root / "proj_out", c.dim(), c.out_channels,
             {.in_axis = "embed", .init = nn::Init::zeros()}) {}

  nn::Linear image;
  nn::Linear text;
  TimeTextEmbedding condition;
  nn::Linear modulation;
  nn::Linear head;
};

bool is_of_blocks(std::string_view key) {
  return key.starts_with("transformer_blocks.") || key.starts_with("single_transformer_blocks.");
}

void apply(const nn::InitOptions& options, nn::ParamSpec& spec) {
  const bool is_gate = is_of_blocks(spec.name) && spec.name.ends_with(".linear.bias");
  if (is_gate && options.gate_bias != 0.0) {
    const double gate = options.gate_bias;
    spec.init.row_offsets = spec.name.starts_with("single")
                                ? std::vector{0.0, 0.0, gate}
                                : std::vector{0.0, 0.0, gate, 0.0, 0.0, gate};
  }
}

void check_vector(std::string_view name, Tensor x, int64_t b) {
  check(x && x.rank() == 1 && (x.dim(0) == b || x.dim(0) == 1),
        "[flux] {} is {} but must be [{}], or [1] for all samples", name,
        x ? to_string(x.shape()) : "not given", b);
}

void check_inputs(const TransformerInputs& in, const TransformerConfig& c,
                  const nn::ModelOptions& options, int64_t tokens) {
  const int64_t b = in.latents.dim(0);
  check_vector("timestep", in.timestep, b);
  if (c.guidance_embeds) {
    check_vector("guidance", in.guidance, b);
  }
  check(options.dropout == 0.0, "[flux] dropout is {} but this family has none", options.dropout);
  check(in.pooled && in.pooled.rank() == 2 && in.pooled.dim(0) == b &&
            in.pooled.dim(1) == c.pooled_projection_dim,
        "[flux] pooled text is {} but must be [{}, {}]",
        in.pooled ? to_string(in.pooled.shape()) : "not given", b, c.pooled_projection_dim);
  if (in.block_sum) {
    const Shape sum{options.activations_dtype, {b, tokens, c.dim()}};
    check(in.block_sum.shape() == sum, "[flux] block_sum is {} but must be {}",
          to_string(in.block_sum.shape()), to_string(sum));
    return;
  }
  check(!in.reference || (in.reference.rank() == 4 && in.reference.dim(0) == b &&
                          in.reference.dim(1) == in.latents.dim(1)),
        "[flux] the reference's latents are {} but must be [{}, {}, h, w]",
        in.reference ? to_string(in.reference.shape()) : "", b, in.latents.dim(1));
  const Tensor text = in.embedded_text ? in.embedded_text : in.text;
  const int64_t width = in.embedded_text ? c.dim() : c.joint_attention_dim;
  check(text && text.rank() == 3 && text.dim(0) == b && text.dim(2) == width,
        "[flux] text is {} but must be [{}, t, {}]", text ? to_string(text.shape()) : "not given",
        b, width);
}

/// The rotary tables in the reference's form: [tokens, head size], each value twice, sines
/// positive.
void offer_rope(const nn::Rope& rope, const TransformerInputs& inputs) {
  const Dims dims{rope.cos.dim(0), 2 * rope.cos.dim(2)};
  const std::vector<float> signs{-1.0F, 1.0F};
  inputs.tap("rope_cos", reshape(rope.cos, dims));
  inputs.tap("rope_sin", reshape(rope.sin * constant_f32(rope.sin.graph(), {2}, signs), dims));
}

/// The taps of one layer, `double3.attn`; empty if there is no tap.
BlockTap tap_of(const TransformerInputs& inputs, const char* kind, int64_t number) {
  if (!inputs.tap || number < 0) {
    return {};
  }
  return [&inputs, prefix = kind + std::to_string(number) + "."](const char* name, Tensor value) {
    inputs.tap(prefix + name, value);
  };
}

/// FLUX_OPTIMIZED keeps nothing of double blocks.
RematPolicy remat_of_double(const RematPolicy& asked) {
  using Kind = RematPolicy::Kind;
  return asked.kind == Kind::FLUX_OPTIMIZED ? RematPolicy{.kind = Kind::FULL} : asked;
}

/// FLUX_OPTIMIZED keeps queries, keys, values and attention's result of single blocks.
RematPolicy remat_of_single(const RematPolicy& asked) {
  using Kind = RematPolicy::Kind;
  return asked.kind == Kind::FLUX_OPTIMIZED
             ? RematPolicy{.kind = Kind::CUSTOM,
                           .saved = {StreamProjections::kSingle.products, "attn_output"}}
             : asked;
}

/// Tables of text, of the grid of the latents at frame 0, and of that of a reference at frame 1.
nn::Rope rope_of(const TransformerInputs& inputs, const TransformerConfig& config, int64_t text) {
  constexpr int64_t kPatch = TransformerConfig::kPatch;
  Graph& graph = inputs.latents.graph();
  const auto grid = [](Tensor latents) -> std::array<int64_t, 3> {
    return {1, latents.dim(2) / kPatch, latents.dim(3) / kPatch};
  };
  const nn::Rope rope =
      nn::rope_per_axis(graph, grid(inputs.latents), config.axes_dims_rope, {.lead = text});
  if (!inputs.reference) {
    return rope;
  }
  const nn::Rope more =
      nn::rope_per_axis(graph, grid(inputs.reference), config.axes_dims_rope, {.first_frame = 1});
  return {.cos = concatenate({rope.cos, more.cos}, Axis(0)),
          .sin = concatenate({rope.sin, more.sin}, Axis(0))};
}

/// Image tokens through all blocks.
Tensor through_blocks(nn::Bound& bound, const TransformerConfig& config,
                      const nn::ModelOptions& options, const TransformerInputs& inputs,
                      Tensor image, Tensor text, const Conditioning& given) {
  nn::Bound::Options how{.remat = remat_of_double(options.remat),
                         .has_tap = static_cast<bool>(inputs.tap)};
  const std::vector<Tensor> streams = bound.run(
      double_blocks(config), {image, text}, {}, how,
      [&](const nn::Bound::Layer& layer, std::span<const Tensor> x) -> std::vector<Tensor> {
        const BlockTap tap = tap_of(inputs, "double", layer.number);
        const DoubleBlock block(layer.params, config);
        const DoubleBlock::Streams y = block({x[0], x[1]}, given, tap);
        if (tap) {
          tap("hidden", y.image);
          tap("encoder", y.text);
        }
        return {y.image, y.text};
      });
  const Tensor all = options.place(concatenate({streams[1], streams[0]}, Axis(1)), kTokenAxes);
  how.remat = remat_of_single(options.remat);
  const Tensor h = bound.run(
      single_blocks(config), {all}, {}, how,
      [&](const nn::Bound::Layer& layer, std::span<const Tensor> x) -> std::vector<Tensor> {
        const Tensor y =
            SingleBlock(layer.params, config)(x[0], given, tap_of(inputs, "single", layer.number));
        if (inputs.tap && layer.number >= 0) {
          inputs.tap("single" + std::to_string(layer.number), y);
        }
        return {y};
      })[0];
  return options.place(slice(h, Axis(1), text.dim(1), image.dim(1)), kTokenAxes);
}

}  // namespace

void check_divides(const TransformerConfig& config, const mesh::Placement& place) {
  mesh::check_divides(place, "attention heads", config.num_attention_heads, "heads");
  mesh::check_divides(place, "features of a token", config.dim(), "embed");
  mesh::check_divides(place, "features of the feed-forward layer", config.mlp_dim(), "mlp");
}

DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage) {
  for (const std::string_view part :
       {"time_text_embed", "norm_q.", "norm_k.", "norm_added_", "lora_scale", "weight_scale"}) {
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
  nn::open_layers(specs, double_blocks(config), options.scan_layers,
                  [&](const nn::Params& layer) { const DoubleBlock block(layer, config); });
  nn::open_layers(specs, single_blocks(config), options.scan_layers,
                  [&](const nn::Params& layer) { const SingleBlock block(layer, config); });
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

Tensor embedded_text(std::span<const Tensor> params, const TransformerConfig& config,
                     const nn::ModelOptions& options, Tensor text) {
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path));
  const Ends ends(bound.root(), config);
  const Scope scope(text.graph(), "context_embedder");
  return ends.text(nn::as(text, options.activations_dtype), options.precision);
}

TransformerOutputs transformer(std::span<const Tensor> params, const TransformerConfig& config,
                               const nn::ModelOptions& options, const TransformerInputs& inputs) {
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path),
                  nn::Dropout(options.low_rank_dropout, inputs.dropout_key));
  const Ends ends(bound.root(), config);
  Graph& graph = inputs.latents.graph();
  const DType dtype = options.activations_dtype;
  const Precision precision = options.precision;
  const auto offer = [&](const char* name, Tensor value) {
    if (inputs.tap && value) {
      inputs.tap(name, value);
    }
    return value;
  };
  check(inputs.latents.rank() == 4 && inputs.latents.dim(1) == config.latent_channels(),
        "[flux] latents are {} but must be [b, {}, h, w]", to_string(inputs.latents.shape()),
        config.latent_channels());
  const int64_t rows = inputs.latents.dim(2);
  const int64_t columns = inputs.latents.dim(3);
  Tensor tokens = pack(inputs.latents);
  const int64_t noisy = tokens.dim(1);
  check_inputs(inputs, config, options, noisy);
  if (inputs.reference && !inputs.block_sum) {
    tokens = concatenate({tokens, nn::as(pack(inputs.reference), tokens.dtype())}, Axis(1));
  }
  Conditioning given;
  given.place = options.place;
  given.attention = options.attention;
  given.attention.precision = precision;
  given.attention.axes = nn::self_attention_axes(options.place);
  Tensor x;
  {
    const Scope scope(graph, "x_embedder");
    x = offer("x_embedder", ends.image(nn::as(tokens, dtype), precision));
    x = options.place(x, kTokenAxes);
  }
  {
    const Scope scope(graph, "time_text_embed");
    const TimeTextEmbedding::Result e =
        ends.condition(inputs.timestep, inputs.guidance, inputs.pooled, precision);
    offer("time_sinusoid", e.time_sinusoid);
    offer("guidance_sinusoid", e.guidance_sinusoid);
    offer("timestep_embedder", e.time);
    offer("guidance_embedder", e.guidance);
    offer("text_embedder", e.text);
    offer("temb", e.sum);
    given.temb = nn::as(silu(e.sum), dtype);
  }
  const auto of_noisy = [&](Tensor all) {
    return all.dim(1) == noisy ? all : options.place(slice(all, Axis(1), 0, noisy), kTokenAxes);
  };
  const Tensor before = of_noisy(x);
  Tensor block_sum = inputs.block_sum;
  if (block_sum) {
    x = before + block_sum;
  } else {
    Tensor text = inputs.embedded_text;
    if (!text) {
      const Scope scope(graph, "context_embedder");
      text = ends.text(nn::as(inputs.text, dtype), precision);
    }
    text = options.place(offer("context_embedder", text), kTokenAxes);
    nn::check_attention(given.attention, text.dim(1) + x.dim(1), text.dim(1) + x.dim(1));
    given.rope = rope_of(inputs, config, text.dim(1));
    if (inputs.tap) {
      offer_rope(given.rope, inputs);
    }
    x = of_noisy(through_blocks(bound, config, options, inputs, x, text, given));
    block_sum = x - before;
  }
  const Scope scope(graph, "proj_out");
  // Scale before shift: the other way round than in the blocks.
  const std::vector<Tensor> m =
      split(expand_dims(ends.modulation(given.temb, precision), Axis(1)), Axis(2), 2);
  x = offer("norm_out", nn::modulated_norm(x, m[1], m[0], kNormEpsilon));
  return {.velocity = unpack(ends.head(x, precision), rows, columns), .block_sum = block_sum};
}

}  // namespace kinema::flux
