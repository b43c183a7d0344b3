#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/training/step.h"

/// Finds the operation in which a step became non-finite. Finite steps cost nothing more: the step
/// itself only reports that some value is not finite. A second program, compiled when that happens,
/// runs the forward pass again with the unchanged parameters and the same batch, and checks every
/// intermediate value.
namespace kinema::training {

/// Called with intermediate values, in the order of computation.
using Tap = std::function<void(const std::string& name, Tensor value)>;
using TappedModel = std::function<Tensor(std::span<const Tensor> params, const ModelInputs& inputs,
                                         const Tap& tap)>;

/// The forward pass with a flag for every intermediate value.
///
/// Inputs: params... (F32), key U32[2], step U32, then the batch as in StepGraph. Output: F32[n], 1
/// if all values of names[i] are finite.
struct ProbeGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Tensor> outputs;
  std::vector<std::string> names;
};
ProbeGraph build_probe(std::span<const nn::ParamSpec> specs, const TappedModel& model,
                       const BatchShapes& batch, const StepOptions& options);

/// The result for a report: the first name whose flag is 0, with the parameter if one is not
/// finite. If the whole forward pass is finite, the non-finite `gradients`, nearest to the loss
/// first.
std::string describe_nonfinite(std::span<const std::string> names, std::span<const float> finite,
                               std::span<const std::string> gradients);

}  // namespace kinema::training
