#pragma once

// What a case of training gives: batches, draws, the optimizer, and which parameters are trained.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/data/source.h"
#include "kinema/networks/network.h"
#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/training/step.h"
#include "kinema/verification/case.h"
#include "kinema/weights/lora.h"

namespace kinema::verification {

/// Step i of a case: the batch, and the values that training would draw at random.
struct GivenStep {
  data::Batch batch;
  std::vector<HostArray> draw;  // noise, timesteps, weights, and guidance if it is an input
};

/// Step i. A video's timesteps are used as they are, a diffusion's as floats, those of an image
/// flow come from its sigmas. An image's latents [b, c, h, w] become [b, c, 1, h, w].
GivenStep read_step(const Case& c, int64_t i, const networks::Sizes& sizes);
training::BatchShapes shapes_of(const data::Batch& batch);
/// The step with the case's `optimizer` and its network's objective.
training::StepOptions step_options(const Case& c, const networks::Sizes& sizes);
/// Whether a case compares outputs of the network after an adapter's training.
bool is_evaluated(const Case& c);
/// The modules that a case's adapter changes: its `targets`, or those of the factors that it
/// stores.
std::vector<std::string> targets_of(const Case& c);
/// Some cases train the control branch alone: as many parameters as their `trained`.
void freeze_others(const Case& c, std::vector<nn::ParamSpec>& specs);
bool is_controlled(const Case& c);
/// A parameter's key in the ControlNet's files; others stay as they are.
std::string without_control_prefix(const std::string& key);
/// The case's UNet and ControlNet, whose output convolutions are zero as those of a new one.
std::vector<runtime::Array> new_control(const Case& c, std::span<const nn::ParamSpec> specs,
                                        const runtime::Devices& devices);
/// Tensors `lora.PATH` of a case, with layers stacked as in the spec. A case stores every B, or
/// none where each starts as zeros.
HostArray factor_of(const Case& c, const nn::ParamSpec& spec);
/// The training adapter of a case, which is merged below the trained one: `FILE, scale 1`.
std::vector<weights::Adapter> training_adapter(const Case& c);

}  // namespace kinema::verification
