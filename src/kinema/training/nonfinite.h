#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/training/step.h"

/// Finding where a bad step went wrong. It costs the good steps nothing: the step itself only says
/// that something is not finite, and a second program, built when that happens, runs the forward
/// pass again on the unchanged parameters and the same batch and looks at every value on the way.
namespace kinema::training {

/// Called with intermediate values, in the order of computation.
using Tap = std::function<void(const std::string& name, Tensor value)>;
using TappedModel = std::function<Tensor(std::span<const Tensor> params, const ModelInputs& inputs,
                                         const Tap& tap)>;

/// The forward pass with a flag for every value on the way.
///
/// Inputs: params... (F32), key U32[2], step U32, then the batch as in StepGraph. Output: F32[n], 1
/// where everything in names[i] is finite.
struct ProbeGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Tensor> outputs;
  std::vector<std::string> names;
};
ProbeGraph build_probe(std::span<const nn::ParamSpec> specs, const TappedModel& model,
                       const BatchShapes& batch, const StepOptions& options);

/// What to report: the first name whose flag is not set; a parameter that is not finite itself is
/// named too. Where the whole forward pass is finite, the gradients given, nearest to the loss
/// first.
std::string describe_nonfinite(std::span<const std::string> names, std::span<const float> finite,
                               std::span<const std::string> gradients);

}  // namespace kinema::training
