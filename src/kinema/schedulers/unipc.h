#pragma once

#include <span>
#include <vector>

#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {

/// Coefficients of UniPC (arXiv:2302.04867) with B(h) = expm1(-h) ("bh2"), order 2, data prediction
/// and order 1 at both ends, for decreasing sigmas, the last of which is 0. Computed in double,
/// rounded once.
std::vector<StepCoefficients> unipc_steps(std::span<const float> sigmas);

}  // namespace kinema::schedulers
