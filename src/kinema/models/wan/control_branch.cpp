#include "kinema/models/wan/control_branch.h"

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::wan {
namespace {

constexpr std::string_view kPrefix = "vace_blocks";

// Zero at the start of training, as in the release: the first predictions are the base model's.
nn::Linear zero_projection(const nn::Params& params, const TransformerConfig& c) {
  return {params,
          c.dim(),
          c.dim(),
          {.out_axis = "embed", .in_axis = "embed", .init = nn::Init::zeros()}};
}

struct ControlBlock {
  ControlBlock(const nn::Params& params, const TransformerConfig& config)
      : block(params, config), proj_out(zero_projection(params / "proj_out", config)) {}

  Block block;
  nn::Linear proj_out;
};

/// The control stream through all blocks; returns the hints, [number of blocks, b, s, d].
Tensor scanned(Tensor c, const BlockRow& row, const BlockParameters& parameters,
               const Conditioning& given) {
  const StackedRow stack(row, parameters, given);
  const Scope scope(c.graph(), std::string(row.prefix));
  return scan({c}, stack.values(), {.length = row.layers, .remat = parameters.options.remat},
              [&](std::span<const Tensor> carry, std::span<const Tensor> layer) -> ScanResult {
                const Conditioning here = stack.given(layer);
                const auto one = stack.layer<ControlBlock>(layer, here.low_rank_dropout);
                const Tensor next = one.block(carry[0], here);
                return {.carry = {next}, .ys = {one.proj_out(next, parameters.options.precision)}};
              })
      .ys[0];
}

Tensor unrolled(Tensor c, const BlockRow& row, const BlockParameters& parameters,
                const Conditioning& given, const NetworkTap& tap) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < row.layers; ++i) {
    const Scope scope(c.graph(), row.key(i));
    const Conditioning here = given_to_layer(i, row, parameters, given);
    const ControlBlock one(nn::Params(parameters.binder, row.key(i)), parameters.config);
    if (tap) {
      const std::string name = "vace" + std::to_string(i);
      c = one.block(c, here,
                    [&](const char* part, Tensor value) { tap(name + "." + part, value); });
      tap(name, c);
    } else {
      c = checkpoint({c}, parameters.options.remat,
                     [&](std::span<const Tensor> in) -> std::vector<Tensor> {
                       return {one.block(in[0], here)};
                     })[0];
    }
    const Tensor hint = one.proj_out(c, parameters.options.precision);
    if (tap) {
      tap("hint" + std::to_string(i), hint);
    }
    out.push_back(expand_dims(hint, Axis(0)));
  }
  return concatenate(out, Axis(0));
}

}  // namespace

ControlBranch::ControlBranch(const nn::Params& root, const TransformerConfig& c)
    : patch_(root / "vace_patch_embedding", c.vace_in_channels, c.dim(), c.patch_size),
      proj_in_(zero_projection(root / row(c).key(0) / "proj_in", c)) {}

BlockRow ControlBranch::row(const TransformerConfig& config) {
  return {.prefix = kPrefix, .layers = config.control_layers(), .first_layer = config.num_layers};
}

void ControlBranch::open_blocks(const nn::Params& root, const TransformerConfig& config,
                                bool stacked) {
  const BlockRow blocks = row(config);
  for (int64_t i = 0; i < (stacked ? 1 : blocks.layers); ++i) {
    const ControlBlock block(root / (stacked ? blocks.stacked_key() : blocks.key(i)), config);
  }
}

Residuals ControlBranch::hints(Tensor x, Tensor control, Tensor scale,
                               const BlockParameters& parameters, const Conditioning& given,
                               const NetworkTap& tap) const {
  const TransformerConfig& config = parameters.config;
  const nn::ModelOptions& options = parameters.options;
  const BlockRow blocks = row(config);
  Graph& graph = x.graph();
  check(control.rank() == 5 && control.dim(0) == x.dim(0) &&
            control.dim(1) == config.vace_in_channels,
        "[wan] control latents are {} but must be [{}, {}, f, h, w]", to_string(control.shape()),
        x.dim(0), config.vace_in_channels);
  check(!scale || (scale.rank() == 1 && scale.dim(0) == blocks.layers),
        "[wan] control_scale is {} but must be [{}], one factor for each hint",
        scale ? to_string(scale.shape()) : "", blocks.layers);
  Tensor c;
  {
    const Scope scope(graph, "vace_patch_embedding");
    c = patch_(nn::as(control, options.activations_dtype), options.precision);
    if (tap) {
      tap("vace_patch_embed", c);
    }
    const int64_t missing = x.dim(1) - c.dim(1);
    check(missing >= 0, "[wan] the control latents have {} tokens, more than the {} of the video",
          c.dim(1), x.dim(1));
    if (missing > 0) {
      const Shape rest{c.dtype(), {c.dim(0), missing, c.dim(2)}};
      c = concatenate({c, constant(graph, 0.0, rest)}, Axis(1));
    }
    c = proj_in_(c, options.precision);
    if (tap) {
      tap("vace0.proj_in", c);
    }
    c = options.place(c + x, kTokenAxes);
  }
  Conditioning here = given;
  here.cfg_batch = false;
  Tensor hints = options.scan_layers ? scanned(c, blocks, parameters, here)
                                     : unrolled(c, blocks, parameters, here, tap);
  if (scale) {
    hints = hints * convert(reshape(scale, {blocks.layers, 1, 1, 1}), hints.dtype());
  }
  return {.layers = config.vace_layers, .values = {hints}};
}

}  // namespace kinema::wan
