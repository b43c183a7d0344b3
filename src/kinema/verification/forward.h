#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kinema/verification/session.h"
#include "kinema/weights/lora.h"

namespace kinema::verification {

/// Inputs of one forward pass, from a case.
struct ForwardInputs {
  HostArray hidden_states, timestep, encoder_hidden_states;
  HostArray encoder_hidden_states_image;  // no bytes where there is none

  static ForwardInputs of(const Case& c);
};

/// Runs the transformer in `model` once; the result is `output` and those of `taps` (without their
/// prefix `tap.`) that the form offers. What the adapters add is merged
/// into the weights, or applied where the options have its ranks.
std::map<std::string, HostArray> run_forward(const std::filesystem::path& model,
                                             const ForwardInputs& inputs,
                                             const std::vector<std::string>& taps,
                                             const nn::ModelOptions& options, Session& session,
                                             std::span<const weights::Adapter> adapters = {});

}  // namespace kinema::verification
