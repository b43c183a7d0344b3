#pragma once

#include <cstdint>
#include <vector>

#include "kinema/schedulers/schedule.h"

/// Builders of noise levels.
namespace kinema::schedulers {

/// Levels of a run: for each evaluation a sigma and the timestep that the model is given, and the
/// last sigma.
struct Ladder {
  std::vector<double> sigmas;  // one more than timesteps
  std::vector<double> timesteps;
  double initial_scale = 1.0;
  bool explodes = false;  // samples are x_0 + sigma eps
};

/// `count` values from `first` to `last`, both included.
std::vector<double> linspace(double first, double last, int64_t count);
/// sigma -> s sigma / (1 + (s - 1) sigma): more of the steps at high noise.
template <typename T>
T shifted(T sigma, T shift) {
  return shift * sigma / (1 + (shift - 1) * sigma);
}
/// sqrt((1 - a) / a)
double sigma_of(double a);

/// Throws an Error if epsilon is predicted at a timestep t without signal (a = 0), which says
/// nothing about the data. Of a trained schedule with zero terminal SNR that is the last timestep,
/// which most LEADING schedules omit.
void check_has_signal(const ScheduleConfig& config, int64_t t, double a);

/// sigma of every training timestep of a diffusion. A last one without signal is finite, as in
/// diffusers.
std::vector<double> training_sigmas(const ScheduleConfig& config);
/// The table's value at a position between its integer ones.
double interpolated(const std::vector<double>& table, double at);
/// The timestep whose training sigma is `sigma`, by interpolation in log sigma.
double timestep_of(double sigma, const std::vector<double>& training);

/// `count` levels that fall from `high` to `low`, not for Spread::MODEL.
std::vector<double> spread(Spread kind, double high, double low, int64_t count, double rho = 7.0);

/// Decreasing timesteps of a diffusion by spacing_of(config), or the given ones. Only LINSPACE has
/// fractions.
std::vector<double> spaced(const ScheduleConfig& config, int64_t steps);
/// The same, rounded to whole ones, from first_step on.
std::vector<int64_t> whole_timesteps(const ScheduleConfig& config, int64_t steps);

/// Levels of EDM.
Ladder edm_levels(const ScheduleConfig& config, int64_t steps);
/// Levels of samplers whose samples are x_0 + sigma eps: EULER, HEUN, ...
Ladder exploding_levels(const ScheduleConfig& config, int64_t steps);
/// Levels of UNIPC, DPM_MULTISTEP, DPM_SINGLESTEP and DEIS.
Ladder solver_levels(const ScheduleConfig& config, int64_t steps, int64_t tokens);
/// Levels of FLOW_MATCH_EULER and FLOW_MATCH_HEUN.
Ladder flow_match_levels(const ScheduleConfig& config, int64_t steps, int64_t tokens);
/// The shift of a flow's even levels: by flow_shift or the picture's size, then to shift_terminal.
/// Throws an Error if a dynamic shift has no picture.
void apply_shift(const ScheduleConfig& config, int64_t tokens, std::vector<double>& sigmas);

/// The levels from ScheduleConfig::first_step on.
Ladder from_first_step(const ScheduleConfig& config, Ladder ladder);
/// A schedule with these levels from first_step on, without steps.
Schedule with_levels(const ScheduleConfig& config, Ladder ladder);

}  // namespace kinema::schedulers
