#pragma once

#include "kinema/graph/tensor.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// Inputs of the solver's update (schedulers::StepCoefficients), f32 [b, c, f, h, w].
struct SolverInputs {
  Tensor x, previous, m1, m2;
  Tensor m3;     // of forms with a long history
  Tensor v;      // the model's prediction
  Tensor noise;  // of forms with noise
};

struct Solved {
  Tensor next;
  Tensor corrected;
  Tensor data;  // m0
};

/// The update with the coefficients that a step's numbers start with.
Solved solve(const SolverInputs& in, Tensor numbers, const schedulers::StepForm& form);

}  // namespace kinema::sample
