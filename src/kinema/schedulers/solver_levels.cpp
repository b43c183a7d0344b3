#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

bool is_dpm(const ScheduleConfig& config) {
  return config.sampler == Sampler::DPM_MULTISTEP || config.sampler == Sampler::DPM_SINGLESTEP;
}

/// Whole timesteps of multistep solvers, whose linspace and leading leave out the timestep after
/// the last.
std::vector<double> solver_timesteps(const ScheduleConfig& config, int64_t steps,
                                     const std::vector<double>& training) {
  if (!config.levels.timesteps.empty()) {
    return spaced(config, steps);
  }
  const auto train = config.num_train_timesteps;
  int64_t end = train;
  if (is_dpm(config) && config.levels.lambda_min_clipped) {
    const double largest = std::exp(-*config.levels.lambda_min_clipped);
    end = std::ranges::count_if(training, [&](double sigma) { return sigma <= largest; });
    check(end > 0, "[scheduler] lambda_min_clipped {} leaves no timestep",
          *config.levels.lambda_min_clipped);
  }
  const bool has_spacing = config.sampler != Sampler::DPM_SINGLESTEP;
  std::vector<double> out;
  for (int64_t i = steps; i >= 1; --i) {
    switch (has_spacing ? spacing_of(config) : Spacing::LINSPACE) {
      case Spacing::LINSPACE:
        out.push_back(std::nearbyint(static_cast<double>(i) *
                                     (static_cast<double>(end - 1) / static_cast<double>(steps))));
        break;
      case Spacing::LEADING:
        out.push_back(static_cast<double>(i * (end / (steps + 1)) + config.diffusion.steps_offset));
        break;
      case Spacing::TRAILING: {
        const double apart = static_cast<double>(train) / static_cast<double>(steps);
        out.push_back(
            std::nearbyint(static_cast<double>(end) - static_cast<double>(steps - i) * apart) -
            1.0);
        break;
      }
    }
    out.back() = std::clamp(out.back(), 0.0, static_cast<double>(train - 1));
  }
  return out;
}

double whole(double t) { return std::trunc(t); }

/// The levels of the betas that a flow's file has for diffusions; diffusers' defaults without.
std::vector<double> flow_training_sigmas(ScheduleConfig config) {
  if (config.diffusion == Diffusion{}) {
    config.diffusion.beta_start = 0.0001;
    config.diffusion.beta_end = 0.02;
    config.diffusion.beta_schedule = BetaSchedule::LINEAR;
  }
  return training_sigmas(config);
}

/// Levels of a diffusion for multistep solvers.
Ladder diffusion_solver_levels(const ScheduleConfig& config, int64_t steps) {
  const Levels& levels = config.levels;
  check(levels.sigmas.empty(),
        "[scheduler] {} takes no sigmas of a diffusion\n  use scheduler=euler, or give timesteps",
        class_name(config));
  const std::vector<double> training = training_sigmas(config);
  Ladder out;
  if (levels.spread == Spread::MODEL) {
    out.timesteps = solver_timesteps(config, steps, training);
    for (double& t : out.timesteps) {
      t = whole(t);
      out.sigmas.push_back(interpolated(training, t));
    }
  } else {
    // In float32 as in the reference, like the logarithms of timestep_of.
    const double high = levels.sigma_max.value_or(static_cast<float>(training.back()));
    const double low = levels.sigma_min.value_or(static_cast<float>(training.front()));
    out.sigmas = spread(levels.spread, high, low, steps);
    const bool rounds = levels.spread == Spread::KARRAS || levels.spread == Spread::LU;
    const bool is_cosine = config.sampler == Sampler::DPM_MULTISTEP &&
                           config.diffusion.beta_schedule == BetaSchedule::SQUAREDCOS_CAP_V2;
    for (const double sigma : out.sigmas) {
      const double t = timestep_of(sigma, training);
      out.timesteps.push_back(whole(rounds && !is_cosine ? std::nearbyint(t) : t));
    }
  }
  const bool repeats_last = !is_dpm(config) && levels.spread != Spread::MODEL;
  out.sigmas.push_back(!levels.ends_at_sigma_min ? 0.0
                       : repeats_last            ? out.sigmas.back()
                                                 : training.front());
  return out;
}

/// Levels of a flow for multistep solvers.
Ladder flow_solver_levels(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  const Levels& levels = config.levels;
  const auto train = static_cast<double>(config.num_train_timesteps);
  check(levels.timesteps.empty(), "[scheduler] a flow's solver takes sigmas, not timesteps");
  Ladder out;
  check(levels.spread != Spread::AYS,
        "[scheduler] the levels `ays` are of diffusions, not of flows");
  if (levels.spread != Spread::MODEL) {
    // The levels of the file's betas, as a flow's: sigma / (1 + sigma).
    const std::vector<double> training = flow_training_sigmas(config);
    out.sigmas = spread(levels.spread, levels.sigma_max.value_or(training.back()),
                        levels.sigma_min.value_or(training.front()), steps);
    for (double& sigma : out.sigmas) {
      sigma /= 1.0 + sigma;
    }
  } else if (!levels.sigmas.empty()) {
    out.sigmas = levels.sigmas;
    apply_shift(config, tokens, out.sigmas);
  } else {
    out.sigmas = linspace(1.0, 1.0 / train, steps + 1);
    if (config.sampler !=
        Sampler::UNIPC) {  // from 1 - 1 / train, and without the 0 at the other end
      std::ranges::reverse(out.sigmas);
      for (double& sigma : out.sigmas) {
        sigma = 1.0 - sigma;
      }
    }
    out.sigmas.pop_back();
    apply_shift(config, tokens, out.sigmas);
  }
  // log(1 - sigma) must be finite: the reference moves the first sigma away from 1 by this much.
  constexpr double kOffOne = 1e-6;
  if (!out.sigmas.empty() && std::abs(out.sigmas.front() - 1.0) < kOffOne) {
    out.sigmas.front() -= kOffOne;
  }
  for (const double sigma : out.sigmas) {
    out.timesteps.push_back(whole(sigma * train));
  }
  out.sigmas.push_back(!levels.ends_at_sigma_min ? 0.0
                       : is_dpm(config)          ? flow_training_sigmas(config).front()
                                                 : out.sigmas.back());
  return out;
}

}  // namespace

Ladder solver_levels(const ScheduleConfig& config, int64_t steps, int64_t tokens) {
  switch (noise_of(config)) {
    case Noise::FLOW:
      return flow_solver_levels(config, steps, tokens);
    case Noise::DIFFUSION:
      return diffusion_solver_levels(config, steps);
    case Noise::EDM:
      return edm_levels(config, steps);
  }
  fail("[scheduler] unknown kind of noise");
}

}  // namespace kinema::schedulers
