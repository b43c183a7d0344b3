#include "kinema/training/early_stopping.h"

#include <fmt/format.h>

#include <cmath>

#include "kinema/core/quantities.h"

namespace kinema::training {

void EarlyStopping::add(int64_t steps, double loss) {
  if (std::isfinite(loss) && (!best || loss < *best)) {
    best = loss;
    best_step = steps;
    without = 0;
  } else {
    ++without;
  }
}

std::string describe(const EarlyStopping& early_stopping) {
  return fmt::format("{} without improvement{}", counted(early_stopping.without, "evaluation"),
                     early_stopping.best
                         ? fmt::format(", the best loss is {:.4f}, after step {}",
                                       *early_stopping.best, early_stopping.best_step)
                         : "");
}

}  // namespace kinema::training
