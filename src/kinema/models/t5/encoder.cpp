#include "kinema/models/t5/encoder.h"

#include "kinema/core/error.h"
#include "kinema/models/t5/block.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/linear.h"

namespace kinema::t5 {
namespace {

constexpr const char* kBlocks = "encoder.block";

// Far below any score, and finite after a bias is added.
constexpr double kMasked = -1e30;

nn::Layers blocks_of(const EncoderConfig& c) { return {kBlocks, c.num_layers}; }

nn::Params block_at(const nn::Params& root, int64_t layer) {
  return root / "encoder" / "block" / std::to_string(layer);
}

/// The table that the blocks share, in the file as block 0's. Empty if each block has its own.
Tensor shared_table(const nn::Params& root, const EncoderConfig& c) {
  return c.shared_relative_bias
             ? relative_bias_table(block_at(root, 0) / "layer" / "0" / "SelfAttention", c)
             : Tensor();
}

nn::RmsNorm last_norm(const nn::Params& root, const EncoderConfig& c) {
  return {root / "encoder" / "final_layer_norm", c.d_model, c.layer_norm_epsilon};
}

DType parameter_dtype(const std::string& key, DType weights_dtype) {
  const bool is_small = key.find("layer_norm") != std::string::npos ||
                        key.find("relative_attention_bias") != std::string::npos;
  return is_small ? DType::F32 : weights_dtype;
}

void check_inputs(Tensor x, Tensor mask, const EncoderConfig& c) {
  check(x.rank() == 3 && x.dim(2) == c.d_model, "[t5] embeddings is {} but must be [b, t, {}]",
        to_string(x.shape()), c.d_model);
  check(!mask || mask.shape().dims == Dims({x.dim(0), x.dim(1)}),
        "[t5] mask is {} but must be [{}, {}]", mask ? to_string(mask.shape()) : "", x.dim(0),
        x.dim(1));
}

nn::SpecCollector collector(const EncoderOptions& options) {
  return nn::SpecCollector([type = options.weights_dtype](const std::string& key) {
    return parameter_dtype(key, type);
  });
}

/// The term that is added to the scores for a mask [b, t]; empty without a mask.
Tensor added_mask(Tensor mask) {
  if (!mask) {
    return {};
  }
  Graph& graph = mask.graph();
  const Shape shape{DType::F32, mask.shape().dims};
  const Tensor is_token = compare(nn::as(mask, DType::F32), Comparison::NE, 0.0);
  const Tensor added =
      select(is_token, constant(graph, 0.0, shape), constant(graph, kMasked, shape));
  return reshape(added, {shape.dims[0], 1, 1, shape.dims[1]});
}

/// The inputs that all blocks share.
BlockInputs block_inputs(Tensor mask, Tensor bias_table, const EncoderOptions& options) {
  return {.mask = added_mask(mask),
          .bias_table = bias_table,
          .precision = options.precision,
          .scores_bytes = options.scores_bytes};
}

/// Passes a block's position bias to the taps.
std::function<void(Tensor)> bias_tap(const EncoderInputs& inputs, const EncoderConfig& config,
                                     int64_t layer) {
  return [&inputs, shared = config.shared_relative_bias, layer](Tensor bias) {
    inputs.tap("block" + std::to_string(layer) + "_bias", bias);
    if (shared && layer == 0) {
      inputs.tap("position_bias", bias);
    }
  };
}

}  // namespace

nn::ParamSpec embedding_table(const EncoderConfig& c) {
  return {.name = "shared.weight",
          .shape = {DType::F32, {c.vocab_size, c.d_model}},
          .axes = {"", "embed"},
          .init = nn::Init::normal(1.0)};
}

std::vector<nn::ParamSpec> parameters(const EncoderConfig& config, const EncoderOptions& options) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  const nn::Params root(specs, "");
  last_norm(root, config);
  shared_table(root, config);
  nn::open_layers(specs, blocks_of(config), options.scan_layers,
                  [&](const nn::Params& params) { const Block block(params, config); });
  return specs.take();
}

Tensor encoder(std::span<const Tensor> params, const EncoderConfig& config,
               const EncoderOptions& options, const EncoderInputs& inputs) {
  nn::Bound bound(parameters(config, options), params);
  check_inputs(inputs.embeddings, inputs.mask, config);
  Tensor x = nn::as(inputs.embeddings, options.activations_dtype);
  const Scope scope(x.graph(), "encoder");
  const BlockInputs given = block_inputs(inputs.mask, shared_table(bound.root(), config), options);
  x = bound.run(blocks_of(config), {x}, {}, {.has_tap = inputs.tap != nullptr},
                [&](const nn::Bound::Layer& layer, std::span<const Tensor> carry) {
                  const Block block(layer.params, config);
                  if (!inputs.tap || layer.number < 0) {
                    return std::vector<Tensor>{block(carry[0], given)};
                  }
                  const std::string number = std::to_string(layer.number);
                  inputs.tap("layer" + number + "_input", carry[0]);
                  BlockInputs seen = given;
                  seen.bias_tap = bias_tap(inputs, config, layer.number);
                  const Tensor y = block(carry[0], seen);
                  inputs.tap("block" + number, y);
                  return std::vector<Tensor>{y};
                })[0];
  return nn::as(last_norm(bound.root(), config)(x), x.dtype());
}

std::vector<nn::ParamSpec> block_parameters(const EncoderConfig& config,
                                            const EncoderOptions& options, int64_t layer) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  const Block block(block_at(nn::Params(specs, ""), layer), config);
  return specs.take();
}

std::vector<nn::ParamSpec> norm_parameters(const EncoderConfig& config,
                                           const EncoderOptions& options) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  last_norm(nn::Params(specs, ""), config);
  return specs.take();
}

std::vector<nn::ParamSpec> shared_parameters(const EncoderConfig& config,
                                             const EncoderOptions& options) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  shared_table(nn::Params(specs, ""), config);
  return specs.take();
}

Tensor block(std::span<const Tensor> params, const EncoderConfig& config,
             const EncoderOptions& options, Tensor x, Tensor mask) {
  check_inputs(x, mask, config);
  std::vector<nn::ParamSpec> specs = block_parameters(config, options, 0);
  for (nn::ParamSpec& spec : shared_parameters(config, options)) {
    specs.push_back(std::move(spec));
  }
  nn::Binder binder(specs, params);
  const nn::Params root(binder, "");
  const Scope encoder(x.graph(), "encoder");
  const Scope scope(x.graph(), "block");
  return Block(block_at(root, 0), config)(x,
                                          block_inputs(mask, shared_table(root, config), options));
}

Tensor final_norm(std::span<const Tensor> params, const EncoderConfig& config,
                  const EncoderOptions& options, Tensor x) {
  const std::vector<nn::ParamSpec> specs = norm_parameters(config, options);
  nn::Binder binder(specs, params);
  const Scope scope(x.graph(), "encoder");
  return nn::as(last_norm(nn::Params(binder, ""), config)(x), x.dtype());
}

}  // namespace kinema::t5
