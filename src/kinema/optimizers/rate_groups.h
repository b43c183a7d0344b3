#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/nn/params.h"
#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

/// Parameters with a learning rate of their own.
struct RateGroup {
  /// Of the whole name in a checkpoint, with * ? [..] as in a shell: `blocks.[0-9].*`.
  std::string pattern;
  /// Of the run's learning rate.
  double factor = 1.0;
};

/// The factors of each parameter, of which the first group that matches counts. Throws an Error for
/// a group that matches none of the names.
std::vector<RateFactors> rate_factors(std::span<const nn::ParamSpec> trained,
                                      std::span<const RateGroup> groups);

}  // namespace kinema::optimizers
