#include "kinema/models/umt5/encoder.h"

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/models/umt5/block.h"
#include "kinema/nn/linear.h"

namespace kinema::umt5 {
namespace {

constexpr const char* kStackedBlock = "encoder.block.{}";
std::string block_key(int64_t layer) { return "encoder.block." + std::to_string(layer); }

// Far below any score, and still finite when a bias is added to it.
constexpr double kMasked = -1e30;

nn::RmsNorm last_norm(const nn::Params& root, const EncoderConfig& c) {
  return {root / "encoder" / "final_layer_norm", c.d_model, c.layer_norm_epsilon};
}

DType parameter_dtype(const std::string& key, DType weights_dtype) {
  const bool is_small = key.find("layer_norm") != std::string::npos ||
                        key.find("relative_attention_bias") != std::string::npos;
  return is_small ? DType::F32 : weights_dtype;
}

void check_inputs(Tensor x, Tensor mask, const EncoderConfig& c) {
  check(x.rank() == 3 && x.dim(2) == c.d_model, "[umt5] embeddings is {} but must be [b, t, {}]",
        to_string(x.shape()), c.d_model);
  check(mask.shape().dims == Dims({x.dim(0), x.dim(1)}), "[umt5] mask is {} but must be [{}, {}]",
        to_string(mask.shape()), x.dim(0), x.dim(1));
}

nn::SpecCollector collector(const EncoderOptions& options) {
  return nn::SpecCollector([type = options.weights_dtype](const std::string& key) {
    return parameter_dtype(key, type);
  });
}

/// What every block is told of a mask [b, t].
BlockInputs block_inputs(Tensor mask, const EncoderOptions& options) {
  Graph& graph = mask.graph();
  const Shape shape{DType::F32, mask.shape().dims};
  const Tensor is_token = compare(nn::as(mask, DType::F32), Comparison::NE, 0.0);
  const Tensor added =
      select(is_token, constant(graph, 0.0, shape), constant(graph, kMasked, shape));
  return {.mask = reshape(added, {shape.dims[0], 1, 1, shape.dims[1]}),
          .precision = options.precision,
          .scores_bytes = options.scores_bytes};
}

Tensor scanned_blocks(Tensor x, std::span<const nn::ParamSpec> specs,
                      std::span<const Tensor> params, const EncoderConfig& config,
                      const BlockInputs& given) {
  std::vector<std::string> keys;
  std::vector<Tensor> stacks;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].layers > 0) {
      keys.push_back(specs[i].name);
      stacks.push_back(params[i]);
    }
  }
  const Scope scope(x.graph(), "block");
  return scan({x}, stacks, {.length = config.num_layers},
              [&](std::span<const Tensor> carry, std::span<const Tensor> layer) -> ScanResult {
                nn::Binder binder;
                for (size_t i = 0; i < keys.size(); ++i) {
                  binder.add(keys[i], layer[i]);
                }
                const Block block(nn::Params(binder, kStackedBlock), config);
                return {.carry = {block(carry[0], given)}};
              })
      .carry[0];
}

Tensor unrolled_blocks(Tensor x, nn::Binder& binder, const EncoderConfig& config, BlockInputs given,
                       const EncoderInputs& inputs) {
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = std::to_string(i);
    const Scope scope(x.graph(), "block" + layer);
    if (inputs.tap) {
      inputs.tap("layer" + layer + "_input", x);
      given.bias_tap = [&](Tensor bias) { inputs.tap("block" + layer + "_bias", bias); };
    }
    x = Block(nn::Params(binder, block_key(i)), config)(x, given);
  }
  return x;
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
  if (options.scan_layers) {
    specs.set_layers(config.num_layers);
    const Block block(root / kStackedBlock, config);
  } else {
    for (int64_t i = 0; i < config.num_layers; ++i) {
      const Block block(root / block_key(i), config);
    }
  }
  return specs.take();
}

Tensor encoder(std::span<const Tensor> params, const EncoderConfig& config,
               const EncoderOptions& options, const EncoderInputs& inputs) {
  const std::vector<nn::ParamSpec> specs = parameters(config, options);
  check_inputs(inputs.embeddings, inputs.mask, config);
  nn::Binder binder(specs, params);
  Tensor x = nn::as(inputs.embeddings, options.activations_dtype);
  Graph& graph = x.graph();
  const Scope scope(graph, "encoder");
  BlockInputs given = block_inputs(inputs.mask, options);
  x = options.scan_layers ? scanned_blocks(x, specs, params, config, given)
                          : unrolled_blocks(x, binder, config, std::move(given), inputs);
  return nn::as(last_norm(nn::Params(binder, ""), config)(x), x.dtype());
}

std::vector<nn::ParamSpec> block_parameters(const EncoderConfig& config,
                                            const EncoderOptions& options, int64_t layer) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  const Block block(nn::Params(specs, block_key(layer)), config);
  return specs.take();
}

std::vector<nn::ParamSpec> norm_parameters(const EncoderConfig& config,
                                           const EncoderOptions& options) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  last_norm(nn::Params(specs, ""), config);
  return specs.take();
}

Tensor block(std::span<const Tensor> params, const EncoderConfig& config,
             const EncoderOptions& options, Tensor x, Tensor mask) {
  check_inputs(x, mask, config);
  const std::vector<nn::ParamSpec> specs = block_parameters(config, options, 0);
  nn::Binder binder(specs, params);
  const Scope encoder(x.graph(), "encoder");
  const Scope scope(x.graph(), "block");
  return Block(nn::Params(binder, block_key(0)), config)(x, block_inputs(mask, options));
}

Tensor final_norm(std::span<const Tensor> params, const EncoderConfig& config,
                  const EncoderOptions& options, Tensor x) {
  const std::vector<nn::ParamSpec> specs = norm_parameters(config, options);
  nn::Binder binder(specs, params);
  const Scope scope(x.graph(), "encoder");
  return nn::as(last_norm(nn::Params(binder, ""), config)(x), x.dtype());
}

}  // namespace kinema::umt5
