#include "kinema/training/network_model.h"

#include <map>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::training {

namespace {

networks::Inputs inputs_of(const ModelInputs& given, const networks::Sizes& sizes) {
  networks::Inputs out{.latents = given.noisy,
                       .timestep = given.timestep,
                       .text = given.text,
                       .image = given.image_states,
                       .pooled = given.pooled,
                       .size_ids = given.size_ids,
                       .guidance = given.guidance,
                       .dropout_key = given.dropout_key};
  if (given.condition) {
    const networks::NamedInput* input = sizes.stored_input();
    check(input != nullptr, "[train] a condition is given, which this network does not take");
    networks::put(*input, given.condition, out);
  }
  // Wan Fun's reference picture is zeros where none is given.
  for (const networks::NamedInput& each : sizes.named) {
    if (each.entry == networks::Entry::FRONT && !each.optional) {
      Dims dims = given.noisy.shape().dims;
      dims[1] = each.channels;
      dims[2] = 1;
      networks::put(each, constant(given.noisy.graph(), 0.0, Shape{DType::F32, dims}), out);
    }
  }
  if (given.given) {
    out.first_timestep = select(given.given, zeros_like(given.timestep), given.timestep);
  }
  return out;
}

/// Every tensor of the checkpoint by its key, with stacked ones divided into layers.
std::map<std::string, Tensor> by_key(std::span<const nn::ParamSpec> specs,
                                     std::span<const Tensor> params) {
  std::map<std::string, Tensor> tensors;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::vector<std::string> names = layer_names(specs.subspan(i, 1));
    for (size_t layer = 0; layer < names.size(); ++layer) {
      Tensor& one = tensors[names[layer]];
      one = specs[i].layers > 0
                ? squeeze(slice(params[i], Axis(0), static_cast<int64_t>(layer), 1), Axis(0))
                : params[i];
      one = specs[i].memory == Memory::DEVICE ? one : fetch(one);
    }
  }
  return tensors;
}

}  // namespace

Model network_model(const networks::Network& network, const nn::ModelOptions& options) {
  return [=](std::span<const Tensor> params, const ModelInputs& given) {
    return network->forward(params, options, inputs_of(given, network.sizes())).prediction;
  };
}

TappedModel tapped_network_model(const networks::Network& network,
                                 const nn::ModelOptions& options) {
  return [=](std::span<const Tensor> params, const ModelInputs& given, const Tap& tap) {
    const std::map<std::string, Tensor> tensors = by_key(network->parameters(options), params);
    nn::ModelOptions unrolled = options;
    unrolled.scan_layers = false;
    std::vector<Tensor> ordered;
    for (const nn::ParamSpec& spec : network->parameters(unrolled)) {
      ordered.push_back(tensors.at(spec.name));
    }
    networks::Inputs inputs = inputs_of(given, network.sizes());
    inputs.tap = [&](const std::string& name, Tensor value) {
      tap(network->key_of_tap(name), value);
    };
    return network->forward(ordered, unrolled, inputs).prediction;
  };
}

}  // namespace kinema::training
