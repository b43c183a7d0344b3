#include "kinema/models/qwen3/encoder.h"

#include "kinema/core/error.h"
#include "kinema/models/qwen3/block.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/linear.h"

namespace kinema::qwen3 {
namespace {

nn::Layers layers_of(const EncoderConfig& c, const EncoderOptions& options) {
  check(options.skipped_layers >= 0 && options.skipped_layers < c.num_hidden_layers,
        "[qwen3] {} layers are left out of {}", options.skipped_layers, c.num_hidden_layers);
  return {"layers", c.num_hidden_layers - options.skipped_layers};
}

nn::RmsNorm last_norm(const nn::Params& root, const EncoderConfig& c) {
  return {root / "norm", c.hidden_size, c.rms_norm_eps};
}

nn::SpecCollector collector(const EncoderOptions& options) {
  return nn::SpecCollector([type = options.weights_dtype](const std::string& key) {
    return key.find("norm") == std::string::npos ? type : DType::F32;
  });
}

void check_inputs(Tensor x, const EncoderConfig& c) {
  check(x.rank() == 3 && x.dim(2) == c.hidden_size,
        "[qwen3] embeddings are {} but must be [b, t, {}]", to_string(x.shape()), c.hidden_size);
}

}  // namespace

nn::ParamSpec embedding_table(const EncoderConfig& c) {
  return {.name = "embed_tokens.weight",
          .shape = {DType::F32, {c.vocab_size, c.hidden_size}},
          .axes = {"", "embed"},
          .init = nn::Init::normal(0.02)};
}

std::vector<nn::ParamSpec> parameters(const EncoderConfig& config, const EncoderOptions& options) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  if (options.skipped_layers == 0) {
    last_norm(nn::Params(specs, ""), config);
  }
  nn::open_layers(specs, layers_of(config, options), options.scan_layers,
                  [&](const nn::Params& params) { const Block block(params, config); });
  return specs.take();
}

Tensor encoder(std::span<const Tensor> params, const EncoderConfig& config,
               const EncoderOptions& options, const EncoderInputs& inputs) {
  nn::Bound bound(parameters(config, options), params);
  check_inputs(inputs.embeddings, config);
  Tensor x = nn::as(inputs.embeddings, options.activations_dtype);
  const BlockInputs given = block_inputs(x.graph(), x.dim(1), config, options.precision);
  if (inputs.tap) {
    const auto whole = [&](Tensor half) {  // of a head
      return reshape(concatenate({half, half}, Axis(2)), {x.dim(1), config.head_dim});
    };
    inputs.tap("rope_cos", whole(given.cos));
    inputs.tap("rope_sin", whole(given.sin));
    inputs.tap("embed_tokens", x);
  }
  x = bound.run(layers_of(config, options), {x}, {}, {.has_tap = inputs.tap != nullptr},
                [&](const nn::Bound::Layer& layer, std::span<const Tensor> carry) {
                  const Block block(layer.params, config);
                  if (!inputs.tap || layer.number < 0) {
                    return std::vector<Tensor>{block(carry[0], given)};
                  }
                  const std::string path = "layer" + std::to_string(layer.number);
                  const Tensor y = block(carry[0], given, [&](const char* name, Tensor value) {
                    inputs.tap(path + "." + name, value);
                  });
                  inputs.tap(path, y);
                  return std::vector<Tensor>{y};
                })[0];
  return options.skipped_layers > 0 ? x : nn::as(last_norm(bound.root(), config)(x), x.dtype());
}

std::vector<nn::ParamSpec> block_parameters(const EncoderConfig& config,
                                            const EncoderOptions& options, int64_t layer) {
  validate(config);
  nn::SpecCollector specs = collector(options);
  const Block block(nn::Params(specs, "") / "layers" / std::to_string(layer), config);
  return specs.take();
}

Tensor block(std::span<const Tensor> params, const EncoderConfig& config,
             const EncoderOptions& options, Tensor x) {
  check_inputs(x, config);
  nn::Binder binder(block_parameters(config, options, 0), params);
  const Scope scope(x.graph(), "layers");
  return Block(nn::Params(binder, "") / "layers" / "0", config)(
      x, block_inputs(x.graph(), x.dim(1), config, options.precision));
}

}  // namespace kinema::qwen3
