#pragma once

#include <cstdint>
#include <string_view>

#include "kinema/schedulers/model_output.h"

namespace kinema::schedulers {

/// x' = sample x + d0 D0 + d1 D1 + d2 D2 + noise z of one step of DPM-Solver, where D0 is the data
/// prediction (or the predicted noise) at the start, and D1, D2 are its first and second divided
/// differences (arXiv:2211.01095, section 4 and appendix C).
struct DpmWeights {
  double sample = 0, d0 = 0, d1 = 0, d2 = 0, noise = 0;
};
DpmWeights dpm_weights(const Solver& solver, const Level& from, const Level& to, int64_t order);

/// The order of a multistep solver's step: the history limits it at the start, and it is lower at
/// the end of runs without enough steps, or to 0.
int64_t multistep_order(const ScheduleConfig& config, int64_t step, int64_t count);

/// Throws an Error for an order that is not 1 to 3.
void check_order(const Solver& solver, std::string_view name);
/// Throws an Error for settings that DPM-Solver does not have.
void check_dpm(const ScheduleConfig& config);

}  // namespace kinema::schedulers
