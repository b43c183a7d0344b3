#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/nn/params.h"
#include "kinema/optimizers/adamw.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

namespace kinema::training {

/// A network's output that training minimises, and the values reported with it.
struct LossTerms {
  Tensor loss;                  // F32 scalar
  std::vector<Tensor> metrics;  // F32 scalars
};

/// Computes the terms of a step from its inputs.
using LossFunction = std::function<LossTerms(std::span<const Tensor> inputs)>;
/// Opens a network's layers, and returns the function that computes with them.
using LossBuilder = std::function<LossFunction(const nn::Params& params)>;

/// Trains a network of one's own with AdamW on a device: parameters and moments stay on the device,
/// and each step donates them. See examples/own_model.cpp.
class LossTrainer {
 public:
  /// Finds the parameters by opening the layers once, initialises them from `seed` and compiles the
  /// step. `inputs`: the shapes of a step's inputs. Throws an Error for a loss that is not an F32
  /// scalar.
  LossTrainer(const pjrt::Client& client, std::vector<Shape> inputs, const LossBuilder& builder,
              const optimizers::AdamWOptions& optimizer = {}, uint64_t seed = 0);

  /// The parameters, in the order in which the layers open them.
  std::span<const nn::ParamSpec> specs() const { return specs_; }
  /// Makes a step; returns the loss before it, then the metrics. `inputs` are on the device.
  std::vector<float> step(std::span<const pjrt::Buffer* const> inputs, float learning_rate);
  /// The parameters now, on the host.
  std::vector<HostArray> parameters() const;

 private:
  pjrt::Client client_;
  std::vector<nn::ParamSpec> specs_;
  std::vector<pjrt::Buffer> state_;  // parameters, mu, nu, count
  std::optional<runtime::Program> program_;
};

}  // namespace kinema::training
