#include "kinema/training/gain.h"

#include <fmt/format.h>

#include <cmath>

#include "kinema/core/quantities.h"

namespace kinema::training {

void Gain::add(int64_t steps, double loss) {
  if (std::isfinite(loss) && (!best || loss < *best)) {
    best = loss;
    best_step = steps;
    without = 0;
  } else {
    ++without;
  }
}

std::string describe(const Gain& gain) {
  return fmt::format("{} without improvement{}", counted(gain.without, "evaluation"),
                     gain.best ? fmt::format(", the best loss is {:.4f}, after step {}", *gain.best,
                                             gain.best_step)
                               : "");
}

}  // namespace kinema::training
