#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/training/adamw.h"
#include "kinema/training/trainer.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/session.h"

/// What cases of training steps share.
namespace kinema::verification {

/// Tensors of step i of a case.
class StepData {
 public:
  StepData(const Case& c, int64_t step);
  HostArray operator[](const char* name) const;

 private:
  const Case& case_;
  std::string prefix_;
};

/// The case's `optimizer`.
training::AdamWOptions adamw_of(const io::Json& optimizer);

/// Of parameters after some steps: where a gradient is nearly zero its rounding decides the sign of
/// a whole Adam step.
Limit after_adam(double learning_rate);

/// Step i of the case, with its noise, timesteps and weights.
training::StepResult run_step(const Case& c, int64_t i, double learning_rate,
                              training::Trainer& trainer);

/// All steps of the case: rows of its `loss` and `grad_norm`. `before` is told of each step first.
void run_steps(std::vector<Row>& rows, const Case& c, const std::string& name, double learning_rate,
               training::Trainer& trainer,
               const std::function<void(int64_t step, bool is_last)>& before = {});

/// A row for each tensor that the case has under `prefix`.
void add_state(std::vector<Row>& rows, const Case& c, const std::string& name,
               const std::string& prefix, std::span<const nn::ParamSpec> specs,
               std::span<const runtime::Array* const> buffers, const Limit& limit);

}  // namespace kinema::verification
