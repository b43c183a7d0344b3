#include "kinema/models/unet/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kinema/models/unet/resample.h"
#include "kinema/nn/attention_axes.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/resnet.h"

namespace kinema::unet {
namespace {

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

}  // namespace

Levels encoder_levels(const UNetConfig& c) {
  Levels out;
  const auto levels = static_cast<size_t>(c.levels());
  int64_t channels = c.block_out_channels[0];
  for (size_t level = 0; level < levels; ++level) {
    const std::string block = fmt::format("down_blocks.{}", level);
    Stage stage{.tap = fmt::format("down{}", level), .channels = c.block_out_channels[level]};
    for (int64_t i = 0; i < c.layers_per_block; ++i) {
      stage.units.push_back(unit(c, block, i, channels, level));
      channels = stage.channels;
    }
    if (level + 1 < levels) {
      stage.resample = block + ".downsamplers.0";
    }
    out.down.push_back(stage);
  }
  out.mid = {.tap = "mid",
             .units = {{.resnet = "mid_block.resnets.0",
                        .in = channels,
                        .out = channels,
                        .attention = transformer_at(c, "mid_block.attentions.0", levels - 1)},
                       {.resnet = "mid_block.resnets.1", .in = channels, .out = channels}},
             .channels = channels};
  return out;
}

Levels levels_of(const UNetConfig& c) {
  Levels out = encoder_levels(c);
  std::vector<int64_t> skips = skip_channels(c);
  const auto levels = static_cast<size_t>(c.levels());
  int64_t channels = out.mid.channels;
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
    out.up.push_back(stage);
  }
  return out;
}

std::vector<int64_t> skip_channels(const UNetConfig& c) {
  std::vector<int64_t> out{c.block_out_channels[0]};
  for (size_t level = 0; level < c.block_out_channels.size(); ++level) {
    const bool shrinks = level + 1 < c.block_out_channels.size();
    out.insert(out.end(), static_cast<size_t>(c.layers_per_block + (shrinks ? 1 : 0)),
               c.block_out_channels[level]);
  }
  return out;
}

std::vector<const TransformerSpec*> transformers(const Levels& levels) {
  std::vector<const TransformerSpec*> out;
  const auto add = [&](const Stage& stage) {
    for (const Unit& unit : stage.units) {
      if (unit.attention) {
        out.push_back(&*unit.attention);
      }
    }
  };
  std::ranges::for_each(levels.down, add);
  add(levels.mid);
  std::ranges::for_each(levels.up, add);
  return out;
}

void open_levels(nn::SpecCollector& specs, const Levels& levels, const UNetConfig& config,
                 bool stacked) {
  for (const Stage& stage : levels.down) {
    open_stage(specs, stage, false, config, stacked);
  }
  open_stage(specs, levels.mid, false, config, stacked);
  for (const Stage& stage : levels.up) {
    open_stage(specs, stage, true, config, stacked);
  }
}

std::vector<Tensor> keys_of(nn::Bound& bound, const Levels& levels, const UNetConfig& config,
                            const nn::ModelOptions& options, Tensor text) {
  text = nn::as(text, options.activations_dtype);
  std::vector<Tensor> keys;
  for (const TransformerSpec* place : transformers(levels)) {
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

std::vector<std::array<int64_t, 3>> text_key_sizes(const Levels& levels) {
  std::vector<std::array<int64_t, 3>> out;
  for (const TransformerSpec* place : transformers(levels)) {
    out.insert(out.end(), 2, {place->layers, place->heads, place->channels / place->heads});
  }
  return out;
}

Walk::Walk(nn::Bound& bound, const UNetConfig& config, const nn::ModelOptions& options,
           const Tap& tap, std::vector<Tensor> keys, Tensor temb)
    : bound_(bound),
      config_(config),
      options_(options),
      tap_(tap),
      keys_(std::move(keys)),
      temb_(temb) {
  given_.place = options.place;
  given_.self_attention = options.attention;
  given_.self_attention.precision = options.precision;
  given_.cross_attention = given_.self_attention;
  given_.self_attention.axes = nn::self_attention_axes(options.place);
  given_.cross_attention.axes = nn::cross_attention_axes(options.place);
  given_.cross_attention.replicated_keys = true;
  given_.layers = {.remat = options.remat, .has_tap = static_cast<bool>(tap)};
}

Tensor Walk::down(Tensor x, std::span<const Stage> stages, std::vector<Tensor>& skips) {
  skips.push_back(x);
  for (const Stage& stage : stages) {
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
  return x;
}

Tensor Walk::middle(Tensor x, const Stage& stage) {
  for (size_t i = 0; i < stage.units.size(); ++i) {
    x = through(x, stage, i);
  }
  offer(stage.tap, x);
  return x;
}

Tensor Walk::up(Tensor x, std::span<const Stage> stages, std::vector<Tensor> skips) {
  for (const Stage& stage : stages) {
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

void Walk::offer(const std::string& name, Tensor value) const {
  if (tap_) {
    tap_(name, value);
  }
}

PartTap Walk::part_tap(const Stage& stage, const char* part, size_t number) const {
  if (!tap_) {
    return {};
  }
  return [this, prefix = fmt::format("{}.{}{}.", stage.tap, part, number)](
             const std::string& name, Tensor value) { tap_(prefix + name, value); };
}

Tensor Walk::through(Tensor x, const Stage& stage, size_t number) {
  const Unit& unit = stage.units[number];
  x = options_.place(x, {"activation_batch", "", "", ""});
  {
    const Scope scope(x.graph(), unit.resnet);
    const nn::ResnetBlock resnet = resnet_at(bound_.root(), unit, config_);
    const PartTap inside = part_tap(stage, "resnet", number);
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
    x = transformer(x, bound_, keys, config_, given_, part_tap(stage, "attention", number));
    offer(fmt::format("{}.attention{}", stage.tap, number), x);
  }
  return x;
}

}  // namespace kinema::unet
