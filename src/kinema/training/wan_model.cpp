#include "kinema/training/wan_model.h"

#include <map>
#include <string>
#include <vector>

namespace kinema::training {

namespace {

wan::TransformerInputs inputs_of(const ModelInputs& given, const wan::TransformerConfig& config) {
  wan::TransformerInputs out{.hidden_states = given.noisy,
                             .timestep = given.timestep,
                             .encoder_hidden_states = given.text,
                             .encoder_hidden_states_image = given.image_states,
                             .dropout_key = given.dropout_key};
  if (given.condition) {
    out.hidden_states =
        concatenate({given.noisy, convert(given.condition, given.noisy.dtype())}, Axis(1));
  }
  if (given.given) {
    const Tensor t = given.timestep;
    out.timestep =
        wan::token_timesteps(select(given.given, zeros_like(t), t), t, out.hidden_states, config);
  }
  return out;
}

/// Every tensor of the checkpoint by its key, stacked ones cut into layers.
std::map<std::string, Tensor> by_key(std::span<const nn::ParamSpec> specs,
                                     std::span<const Tensor> params) {
  std::map<std::string, Tensor> tensors;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::vector<std::string> names = layer_names(specs.subspan(i, 1));
    for (size_t layer = 0; layer < names.size(); ++layer) {
      tensors[names[layer]] =
          specs[i].layers > 0
              ? squeeze(slice(params[i], Axis(0), static_cast<int64_t>(layer), 1), Axis(0))
              : params[i];
    }
  }
  return tensors;
}

}  // namespace

Model wan_model(const wan::TransformerConfig& config, const wan::ModelOptions& options) {
  return [=](std::span<const Tensor> params, const ModelInputs& given) {
    return wan::transformer(params, config, options, inputs_of(given, config));
  };
}

TappedModel tapped_wan_model(const wan::TransformerConfig& config,
                             const wan::ModelOptions& options) {
  return [=](std::span<const Tensor> params, const ModelInputs& given, const Tap& tap) {
    const std::map<std::string, Tensor> tensors = by_key(wan::parameters(config, options), params);
    wan::ModelOptions unrolled = options;
    unrolled.scan_layers = false;
    std::vector<Tensor> ordered;
    for (const nn::ParamSpec& spec : wan::parameters(config, unrolled)) {
      ordered.push_back(tensors.at(spec.name));
    }
    wan::TransformerInputs inputs = inputs_of(given, config);
    inputs.tap = tap;
    return wan::transformer(ordered, config, unrolled, inputs);
  };
}

}  // namespace kinema::training
