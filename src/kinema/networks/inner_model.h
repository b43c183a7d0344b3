#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/nn/params.h"

/// Several models in one network: text encoders that train with it (with_text.h) and ControlNets
/// (controlled.h). The parameters of each have the model's part of a pipeline before their names.
namespace kinema::networks {

/// The part of the first ControlNet; of others `controlnet_1` ...
inline constexpr std::string_view kControlNet = "controlnet";
bool is_controlnet(std::string_view part);

/// The model that a parameter belongs to: `text_encoder`, `text_encoder_2`, `controlnet`,
/// `controlnet_1` ..., or empty for the network itself.
std::string_view inner_part(std::string_view parameter);

/// Parameters of one model: the network, whose `part` is empty, or another one.
struct ModelSpecs {
  std::string part;
  std::vector<nn::ParamSpec> specs;  // named as in the model's own files
};
/// Divides parameters, which are in the order of such a network, by models; those of other networks
/// are one model.
std::vector<ModelSpecs> by_model(std::span<const nn::ParamSpec> specs);

}  // namespace kinema::networks
