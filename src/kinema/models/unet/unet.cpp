#include "kinema/models/unet/unet.h"

#include <algorithm>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/models/unet/resample.h"
#include "kinema/models/unet/transformer.h"
#include "kinema/nn/attention_axes.h"
#include "kinema/nn/embedding.h"
#include "kinema/nn/quantized_modules.h"
#include "kinema/nn/resnet.h"

namespace kinema::unet {
namespace {

/// A resnet, followed by a transformer on levels that have one.
struct Unit {
  std::string resnet;  // path
  int64_t in = 0;
  int64_t out = 0;
  std::optional<TransformerSpec> attention = {};
};

/// A level of the down or up path: units, then the resampling.
struct Stage {
  std::string tap;  // `down1`
  std::vector<Unit> units;
  std::string resample = {};  // path; empty: none
  int64_t channels = 0;
};

/// The network as a list of units: parameters, forward pass and text keys all follow it.
struct Plan {
  std::vector<Stage> down;
  Stage mid;
  std::vector<Stage> up;
};

TransformerSpec transformer_at(const UNetConfig& c, const std::string& path, size_t level) {
  return {.path = path,
          .channels = c.block_out_channels[level],
          .heads = c.num_attention_heads[level],
          .layers = c.transformer_layers_per_block[level]};
}

Unit unit(const UNetConfig& c, const std::string& block, int64_t number, int64_t in, size_t level) {
  Unit out{.resnet = fmt::format("{}.resnets.{}", block, number),
           .in = in,
           .out = c.block_out_channels[level]};
  if (c.cross_attention[level]) {
    out.attention = transformer_at(c, fmt::format("{}.attentions.{}", block, number), level);
  }
  return out;
}

Plan plan_of(const UNetConfig& c) {
  Plan plan;
  const auto levels = static_cast<size_t>(c.levels());
  int64_t channels = c.block_out_channels[0];
  std::vector<int64_t> skips{channels};
  for (size_t level = 0; level < levels; ++level) {
    const std::string block = fmt::format("down_blocks.{}", level);
    Stage stage{.tap = fmt::format("down{}", level), .channels = c.block_out_channels[level]};
    for (int64_t i = 0; i < c.layers_per_block; ++i) {
      stage.units.push_back(unit(c, block, i, channels, level));
      channels = stage.channels;
      skips.push_back(channels);
    }
    if (level + 1 < levels) {
      stage.resample = block + ".downsamplers.0";
      skips.push_back(channels);
    }
    plan.down.push_back(stage);
  }
  plan.mid = {.tap = "mid",
              .units = {{.resnet = "mid_block.resnets.0",
                         .in = channels,
                         .out = channels,
                         .attention = transformer_at(c, "mid_block.attentions.0", levels - 1)},
                        {.resnet = "mid_block.resnets.1", .in = channels, .out = channels}},
              .channels = channels};
  for (size_t i = 0; i < levels; ++i) {
    const size_t level = levels - 1 - i;
    const std::string block = fmt::format("up_blocks.{}", i);
    Stage stage{.tap = fmt::format("up{}", i), .channels = c.block_out_channels[level]};
    for (int64_t j = 0; j <= c.layers_per_block; ++j) {
      stage.units.push_back(unit(c, block, j, channels + skips.back(), level));
      skips.pop_back();
      channels = stage.channels;
    }
    if (i + 1 < levels) {
      stage.resample = block + ".upsamplers.0";
    }
    plan.up.push_back(stage);
  }
  return plan;
}

std::vector<const TransformerSpec*> transformers(const Plan& plan) {
  std::vector<const TransformerSpec*> out;
  const auto add = [&](const Stage& stage) {
    for (const Unit& unit : stage.units) {
      if (unit.attention) {
        out.push_back(&*unit.attention);
      }
    }
  };
  std::ranges::for_each(plan.down, add);
  add(plan.mid);
  std::ranges::for_each(plan.up, add);
  return out;
}

nn::ResnetBlock resnet_at(const nn::Params& root, const Unit& unit, const UNetConfig& c) {
  // Zero: from scratch, blocks start as the identity.
  return {root / unit.resnet,
          unit.in,
          unit.out,
          {.groups = c.norm_num_groups,
           .eps = c.norm_eps,
           .time_dim = c.time_dim(),
           .last = nn::Init::zeros()}};
}

/// The parameters outside the levels.
struct Ends {
  Ends(const nn::Params& root, const UNetConfig& c)
      : conv_in(root / "conv_in", c.in_channels, c.block_out_channels[0], 3),
        time(root / "time_embedding", c.block_out_channels[0], c.time_dim(), nn::Init::xavier()),
        addition(c.has_addition()
                     ? std::optional<nn::EmbeddingMlp>(std::in_place, root / "add_embedding",
                                                       c.projection_class_embeddings_input_dim,
                                                       c.time_dim(), nn::Init::xavier())
                     : std::nullopt),
        norm_out(root / "conv_norm_out", c.block_out_channels[0], c.norm_num_groups, c.norm_eps),
        // Zero: the first prediction is the target's mean, regardless of the blocks.
        conv_out(root / "conv_out", c.block_out_channels[0], c.out_channels, 3, nn::Init::zeros()) {
  }

  nn::Conv2d conv_in;
  nn::EmbeddingMlp time;
  std::optional<nn::EmbeddingMlp> addition;
  nn::GroupNorm norm_out;
  nn::Conv2d conv_out;
};

void open_stage(nn::SpecCollector& specs, const Stage& stage, bool up, const UNetConfig& config,
                bool stacked) {
  const nn::Params root(specs, "");
  for (const Unit& unit : stage.units) {
    const nn::ResnetBlock resnet = resnet_at(root, unit, config);
    if (!unit.attention) {
      continue;
    }
    const TransformerSpec& place = *unit.attention;
    const SpatialTransformer transformer(root / place.path, place, config);
    nn::open_layers(specs, place.blocks(), stacked, [&](const nn::Params& layer) {
      const TransformerBlock block(layer, place.channels, place.heads, config);
    });
  }
  if (!stage.resample.empty()) {
    if (up) {
      const Upsample resample(root / stage.resample, stage.channels);
    } else {
      const Downsample resample(root / stage.resample, stage.channels);
    }
  }
}

/// The state of the forward pass through the levels.
class Walk {
 public:
  Walk(nn::Bound& bound, const UNetConfig& config, const nn::ModelOptions& options,
       const UNetInputs& inputs, std::vector<Tensor> keys, Tensor temb)
      : bound_(bound),
        config_(config),
        options_(options),
        inputs_(inputs),
        keys_(std::move(keys)),
        temb_(temb) {
    given_.place = options.place;
    given_.self_attention = options.attention;
    given_.self_attention.precision = options.precision;
    given_.cross_attention = given_.self_attention;
    given_.self_attention.axes = nn::self_attention_axes(options.place);
    given_.cross_attention.axes = nn::cross_attention_axes(options.place);
    given_.cross_attention.replicated_keys = true;
    given_.layers = {.remat = options.remat, .has_tap = static_cast<bool>(inputs.tap)};
  }

  Tensor operator()(Tensor x, const Plan& plan) {
    std::vector<Tensor> skips{x};
    for (const Stage& stage : plan.down) {
      for (size_t i = 0; i < stage.units.size(); ++i) {
        x = through(x, stage, i);
        skips.push_back(x);
      }
      if (!stage.resample.empty()) {
        const Scope scope(x.graph(), stage.resample);
        x = Downsample(bound_.root() / stage.resample, stage.channels)(x, options_.precision);
        skips.push_back(x);
      }
      offer(stage.tap, x);
    }
    for (size_t i = 0; i < plan.mid.units.size(); ++i) {
      x = through(x, plan.mid, i);
    }
    offer(plan.mid.tap, x);
    for (const Stage& stage : plan.up) {
      for (size_t i = 0; i < stage.units.size(); ++i) {
        const Tensor joined = concatenate({x, skips.back()}, Axis(1));
        skips.pop_back();
        x = through(joined, stage, i);
      }
      if (!stage.resample.empty()) {
        const Scope scope(x.graph(), stage.resample);
        x = Upsample(bound_.root() / stage.resample, stage.channels)(
            x, skips.back().dim(2), skips.back().dim(3), options_.precision);
      }
      offer(stage.tap, x);
    }
    return x;
  }

 private:
  void offer(const std::string& name, Tensor value) const {
    if (inputs_.tap) {
      inputs_.tap(name, value);
    }
  }

  PartTap tap(const Stage& stage, const char* part, size_t number) const {
    if (!inputs_.tap) {
      return {};
    }
    return [this, prefix = fmt::format("{}.{}{}.", stage.tap, part, number)](
               const std::string& name, Tensor value) { inputs_.tap(prefix + name, value); };
  }

  /// One resnet and its transformer.
  Tensor through(Tensor x, const Stage& stage, size_t number) {
    const Unit& unit = stage.units[number];
    x = options_.place(x, {"activation_batch", "", "", ""});
    {
      const Scope scope(x.graph(), unit.resnet);
      const nn::ResnetBlock resnet = resnet_at(bound_.root(), unit, config_);
      const PartTap inside = tap(stage, "resnet", number);
      x = inside ? resnet(x, temb_, options_.precision, inside)
                 : checkpoint({x, temb_}, options_.remat,
                              [&](std::span<const Tensor> in) -> std::vector<Tensor> {
                                return {resnet(in[0], in[1], options_.precision)};
                              })[0];
      offer(fmt::format("{}.resnet{}", stage.tap, number), x);
    }
    if (unit.attention) {
      const TransformerSpec& place = *unit.attention;
      const SpatialTransformer transformer(bound_.root() / place.path, place, config_);
      const TextKeys keys{keys_[next_key_], keys_[next_key_ + 1]};
      next_key_ += 2;
      x = transformer(x, bound_, keys, config_, given_, tap(stage, "attention", number));
      offer(fmt::format("{}.attention{}", stage.tap, number), x);
    }
    return x;
  }

  nn::Bound& bound_;
  const UNetConfig& config_;
  const nn::ModelOptions& options_;
  const UNetInputs& inputs_;
  std::vector<Tensor> keys_;
  Tensor temb_;
  TransformerOptions given_;
  size_t next_key_ = 0;
};

std::vector<Tensor> keys_of(nn::Bound& bound, const UNetConfig& config,
                            const nn::ModelOptions& options, Tensor text) {
  const Plan plan = plan_of(config);
  text = nn::as(text, options.activations_dtype);
  std::vector<Tensor> keys;
  for (const TransformerSpec* place : transformers(plan)) {
    const std::vector<Tensor> made = bound.per_layer(
        place->blocks(), text.graph(), [&](const nn::Bound::Layer& layer) -> std::vector<Tensor> {
          const TransformerBlock block(layer.params, place->channels, place->heads, config);
          const TextKeys own = block.text_keys(text, options.precision);
          return {own.key, own.value};
        });
    keys.insert(keys.end(), made.begin(), made.end());
  }
  return keys;
}

void check_inputs(const UNetInputs& in, const UNetConfig& c, const nn::ModelOptions& options) {
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
    const size_t count = text_key_sizes(c).size();
    check(in.keys.size() == count, "[unet] {} keys and values are given but there are {}",
          in.keys.size(), count);
  } else {
    check(in.text && in.text.rank() == 3 && in.text.dim(0) == b &&
              in.text.dim(2) == c.cross_attention_dim,
          "[unet] text is {} but must be [{}, t, {}]",
          in.text ? to_string(in.text.shape()) : "not given", b, c.cross_attention_dim);
  }
}

/// Feature maps [b, c, h, w] as [b, h w, c], and back.
Tensor to_tokens(Tensor x) {
  return reshape(transpose(x, {0, 2, 3, 1}), {x.dim(0), x.dim(2) * x.dim(3), x.dim(1)});
}
Tensor to_map(Tensor tokens, int64_t h, int64_t w) {
  return transpose(reshape(tokens, {tokens.dim(0), h, w, tokens.dim(2)}), {0, 3, 1, 2});
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
  nn::SpecCollector specs(
      [&](const std::string& key) {
        return parameter_dtype(key, options.weights_dtype, options.weights_storage);
      },
      options.low_ranks);
  const Plan plan = plan_of(config);
  const Ends ends(nn::Params(specs, ""), config);
  for (const Stage& stage : plan.down) {
    open_stage(specs, stage, false, config, options.scan_layers);
  }
  open_stage(specs, plan.mid, false, config, options.scan_layers);
  for (const Stage& stage : plan.up) {
    open_stage(specs, stage, true, config, options.scan_layers);
  }
  nn::check_module_path(options.quantization, specs.products(), nn::plain_module_path);
  std::vector<nn::ParamSpec> result = specs.take();
  for (nn::ParamSpec& spec : result) {
    if (spec.layers > 0 && spec.layer_shape().rank() == 2 && !spec.is_low_rank()) {
      spec.memory = options.weights_memory;
    }
  }
  return result;
}

std::vector<Tensor> text_keys(std::span<const Tensor> params, const UNetConfig& config,
                              const nn::ModelOptions& options, Tensor text) {
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path));
  return keys_of(bound, config, options, text);
}

std::vector<std::array<int64_t, 3>> text_key_sizes(const UNetConfig& config) {
  const Plan plan = plan_of(config);
  std::vector<std::array<int64_t, 3>> out;
  for (const TransformerSpec* place : transformers(plan)) {
    out.insert(out.end(), 2, {place->layers, place->heads, place->channels / place->heads});
  }
  return out;
}

namespace {

double resnet_flops(const Unit& unit, const UNetConfig& c, double pixels) {
  const auto in = static_cast<double>(unit.in);
  const auto out = static_cast<double>(unit.out);
  const double shortcut = unit.in == unit.out ? 0.0 : in * out;
  return 2 * pixels * (9 * in * out + 9 * out * out + shortcut) +
         2 * static_cast<double>(c.time_dim()) * out;
}

double transformer_flops(const TransformerSpec& place, const UNetConfig& c, double pixels,
                         double text) {
  const auto d = static_cast<double>(place.channels);
  const double self = 8 * pixels * d * d + 4 * pixels * pixels * d;
  const double cross = 4 * pixels * d * d +
                       4 * text * static_cast<double>(c.cross_attention_dim) * d +
                       4 * pixels * text * d;
  const double feed_forward = 2 * pixels * d * d * 12;
  return 4 * pixels * d * d + static_cast<double>(place.layers) * (self + cross + feed_forward);
}

}  // namespace

double forward_flops(const UNetConfig& config, int64_t h, int64_t w, int64_t text_tokens) {
  const Plan plan = plan_of(config);
  const auto text = static_cast<double>(text_tokens);
  double pixels = static_cast<double>(h) * static_cast<double>(w);
  const auto first = static_cast<double>(config.block_out_channels[0]);
  double flops =
      18 * pixels * first * static_cast<double>(config.in_channels + config.out_channels);
  const auto add = [&](const Stage& stage) {
    for (const Unit& unit : stage.units) {
      flops += resnet_flops(unit, config, pixels);
      flops += unit.attention ? transformer_flops(*unit.attention, config, pixels, text) : 0.0;
    }
  };
  const auto resample = [&](const Stage& stage, double factor) {
    if (!stage.resample.empty()) {
      pixels *= factor;
      const auto channels = static_cast<double>(stage.channels);
      flops += 18 * pixels * channels * channels;
    }
  };
  for (const Stage& stage : plan.down) {
    add(stage);
    resample(stage, 0.25);
  }
  add(plan.mid);
  for (const Stage& stage : plan.up) {
    add(stage);
    resample(stage, 4.0);
  }
  return flops;
}

UNetOutputs unet(std::span<const Tensor> params, const UNetConfig& config,
                 const nn::ModelOptions& options, const UNetInputs& inputs) {
  check_inputs(inputs, config, options);
  nn::Bound bound(parameters(config, options), params,
                  nn::quantized_products(options.quantization, nn::plain_module_path),
                  nn::Dropout(options.low_rank_dropout, inputs.dropout_key));
  const Ends ends(bound.root(), config);
  Graph& graph = inputs.latents.graph();
  const DType dtype = options.activations_dtype;
  const Precision precision = options.precision;
  const auto offer = [&](const char* name, Tensor value) {
    if (inputs.tap) {
      inputs.tap(name, value);
    }
    return value;
  };
  const int64_t b = inputs.latents.dim(0);
  Tensor temb;
  {
    // In f32: timesteps and sizes in the thousands lose digits in bf16.
    const Scope scope(graph, "time_embedding");
    const Tensor time =
        offer("time_sinusoid", nn::sinusoid(inputs.timestep, config.block_out_channels[0]));
    Tensor sum = offer("time_embedding", ends.time(time, silu, precision));
    if (ends.addition) {
      const Tensor sizes = offer("add_time_sinusoid",
                                 nn::sinusoid(reshape(inputs.time_ids, {b * UNetConfig::kTimeIds}),
                                              config.addition_time_embed_dim));
      const Tensor added =
          concatenate({nn::as(inputs.pooled, DType::F32), reshape(sizes, {b, -1})}, Axis(1));
      sum = sum + offer("add_embedding", (*ends.addition)(added, silu, precision));
    }
    temb = nn::as(silu(sum), dtype);
  }
  Tensor x;
  {
    const Scope scope(graph, "conv_in");
    x = offer("conv_in", ends.conv_in(nn::as(inputs.latents, dtype), precision));
  }
  const Tensor before = x;
  Tensor block_sum = inputs.block_sum;
  if (block_sum) {
    x = before + to_map(block_sum, x.dim(2), x.dim(3));
  } else {
    std::vector<Tensor> keys =
        inputs.keys.empty() ? keys_of(bound, config, options, inputs.text) : inputs.keys;
    x = Walk(bound, config, options, inputs, std::move(keys), temb)(x, plan_of(config));
    block_sum = to_tokens(x - before);
  }
  const Scope scope(graph, "conv_out");
  if (inputs.tap) {
    offer("conv_norm_out", ends.norm_out(x));
  }
  return {.prediction = ends.conv_out(ends.norm_out, x, precision), .block_sum = block_sum};
}

}  // namespace kinema::unet
