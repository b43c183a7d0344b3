#include "kinema/schedulers/levels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/schedulers/beta_quantile.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

/// The levels of ten steps that arXiv:2404.14507 found for SDXL.
constexpr std::array kAlignedForSdxl{14.6146412293, 6.3184485287, 3.7681790315, 2.1811480769,
                                     1.3405244945,  0.8620721141, 0.5550693289, 0.3798540708,
                                     0.2332364134,  0.1114188177, 0.0291671582};

/// The aligned levels, interpolated in log sigma; the last of them is the end, and not included.
std::vector<double> aligned(int64_t count) {
  std::vector<double> logs;
  for (const double sigma : kAlignedForSdxl) {
    logs.push_back(std::log(sigma));
  }
  std::vector<double> out;
  const auto last = static_cast<double>(logs.size() - 1);
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(
        std::exp(interpolated(logs, last * static_cast<double>(i) / static_cast<double>(count))));
  }
  return out;
}

}  // namespace

std::vector<double> linspace(double first, double last, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count), first);
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0.0;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<double>(i) * step + first;
  }
  if (count > 1) {
    values.back() = last;
  }
  return values;
}

double sigma_of(double a) { return std::sqrt((1.0 - a) / a); }

void check_has_signal(const ScheduleConfig& config, int64_t t, double a) {
  check(config.diffusion.prediction_type != Prediction::EPSILON || a > 0.0,
        "[scheduler] timestep {} has no signal (rescale_betas_zero_snr), so a model that predicts "
        "epsilon says nothing about the data there\n  use scheduler=euler, which moves that "
        "timestep, or timestep_spacing `leading` in scheduler_config.json",
        t);
}

std::vector<double> training_sigmas(const ScheduleConfig& config) {
  std::vector<float> alphas = alphas_cumprod(config.diffusion, config.num_train_timesteps);
  if (config.diffusion.rescale_betas_zero_snr) {
    // The reference moves the last value off 0, where sigma would be infinite.
    alphas.back() = 0x1p-24F;
  }
  std::vector<double> out;
  for (const float a : alphas) {
    out.push_back(std::sqrt((1.0F - a) / a));  // in float32 as in the reference
  }
  return out;
}

double interpolated(const std::vector<double>& table, double at) {
  const auto last = static_cast<double>(table.size() - 1);
  at = std::clamp(at, 0.0, last);
  const auto low = static_cast<size_t>(std::floor(at));
  const size_t high = std::min(low + 1, table.size() - 1);
  const double part = at - static_cast<double>(low);
  return table[low] + part * (table[high] - table[low]);
}

double timestep_of(double sigma, const std::vector<double>& training) {
  const auto count = static_cast<int64_t>(training.size());
  if (count == 1) {
    return 0.0;
  }
  const double at = std::log(std::max(sigma, 1e-10));
  // In float32 as in the reference: its rounding decides which timesteps are cut to whole ones.
  const auto log_of = [](double each) {
    return static_cast<double>(static_cast<float>(std::log(static_cast<float>(each))));
  };
  const auto above =
      std::ranges::partition_point(training, [&](double each) { return log_of(each) <= at; });
  const int64_t low = std::clamp<int64_t>(above - training.begin() - 1, 0, count - 2);
  const double first = log_of(training[low]);
  const double second = log_of(training[low + 1]);
  return static_cast<double>(low) + std::clamp((first - at) / (first - second), 0.0, 1.0);
}

std::vector<double> spread(Spread kind, double high, double low, int64_t count, double rho) {
  check(low > 0.0 && high >= low && std::isfinite(high),
        "[scheduler] noise levels go from sigma_max {} to sigma_min {}, expected sigma_min above 0 "
        "and not above sigma_max",
        high, low);
  if (kind == Spread::AYS) {
    return aligned(count);
  }
  std::vector<double> out;
  for (const double part : linspace(0.0, 1.0, count)) {
    switch (kind) {
      case Spread::KARRAS: {
        const double first = std::pow(high, 1.0 / rho);
        out.push_back(std::pow(first + part * (std::pow(low, 1.0 / rho) - first), rho));
        break;
      }
      case Spread::EXPONENTIAL:
      case Spread::LU:
        out.push_back(std::exp(std::log(high) + part * (std::log(low) - std::log(high))));
        break;
      case Spread::BETA:
        out.push_back(low + beta_quantile(1.0 - part, 0.6) * (high - low));
        break;
      case Spread::MODEL:
      case Spread::AYS:
        fail("[scheduler] the levels `{}` have no formula", name_of(kind));
    }
  }
  return out;
}

std::vector<double> spaced(const ScheduleConfig& config, int64_t steps) {
  const auto train = static_cast<double>(config.num_train_timesteps);
  if (!config.levels.timesteps.empty()) {
    return config.levels.timesteps;
  }
  const auto n = static_cast<double>(steps);
  std::vector<double> out;
  for (int64_t i = 0; i < steps; ++i) {
    const auto at = static_cast<double>(i);
    switch (spacing_of(config)) {
      case Spacing::LEADING: {
        const int64_t apart = config.num_train_timesteps / steps;
        const int64_t t = (steps - 1 - i) * apart + config.diffusion.steps_offset;
        out.push_back(std::min(static_cast<double>(t), train - 1.0));
        break;
      }
      case Spacing::TRAILING:
        // Counted by an integer: with floats, the reference's range has one element too many for
        // some n.
        out.push_back(std::nearbyint(train - at * (train / n)) - 1.0);
        break;
      case Spacing::LINSPACE:
        out.push_back(steps == 1 ? 0.0 : (n - 1.0 - at) * ((train - 1.0) / (n - 1.0)));
        break;
    }
  }
  return out;
}

std::vector<int64_t> whole_timesteps(const ScheduleConfig& config, int64_t steps) {
  check(config.levels.sigmas.empty() && config.levels.spread == Spread::MODEL,
        "[scheduler] {} visits training timesteps, and takes neither sigmas nor noise_levels\n  "
        "use scheduler=euler, or give timesteps",
        class_name(config));
  std::vector<int64_t> out;
  for (const double t : spaced(config, steps)) {
    out.push_back(static_cast<int64_t>(std::nearbyint(t)));
  }
  out.erase(out.begin(), out.begin() + config.first_step);
  return out;
}

Ladder edm_levels(const ScheduleConfig& config, int64_t steps) {
  const Edm& edm = config.edm;
  check(
      edm.sigma_min > 0.0 && edm.sigma_max > edm.sigma_min && edm.sigma_data > 0.0 && edm.rho > 0.0,
      "[scheduler] EDM has sigma_min {}, sigma_max {}, sigma_data {} and rho {}, expected "
      "sigma_min < sigma_max, all above 0",
      edm.sigma_min, edm.sigma_max, edm.sigma_data, edm.rho);
  const Spread own = edm.exponential ? Spread::EXPONENTIAL : Spread::KARRAS;
  Ladder out;
  out.sigmas = config.levels.sigmas;
  if (out.sigmas.empty()) {
    out.sigmas = config.levels.spread == Spread::MODEL
                     ? spread(own, edm.sigma_max, edm.sigma_min, steps, edm.rho)
                     : spread(config.levels.spread, edm.sigma_max, edm.sigma_min, steps);
  }
  for (const double sigma : out.sigmas) {
    out.timesteps.push_back(0.25 * std::log(static_cast<float>(sigma)));
  }
  out.initial_scale = std::hypot(edm.sigma_max, 1.0);
  out.explodes = true;
  out.sigmas.push_back(config.levels.ends_at_sigma_min ? out.sigmas.back() : 0.0);
  return out;
}

Ladder exploding_levels(const ScheduleConfig& config, int64_t steps) {
  if (noise_of(config) == Noise::EDM) {
    return edm_levels(config, steps);
  }
  const Levels& levels = config.levels;
  const std::vector<double> training = training_sigmas(config);
  Ladder out;
  if (!levels.sigmas.empty()) {
    out.sigmas = levels.sigmas;
  } else {
    for (const double t : spaced(config, steps)) {
      out.timesteps.push_back(static_cast<float>(t));
      out.sigmas.push_back(interpolated(training, static_cast<float>(t)));
    }
    if (levels.log_linear) {  // one more than timesteps, down to the smallest
      out.sigmas = spread(Spread::EXPONENTIAL, training.back(), training.front(), steps + 1);
    }
    if (levels.spread != Spread::MODEL) {
      out.sigmas = spread(levels.spread, levels.sigma_max.value_or(out.sigmas.front()),
                          levels.sigma_min.value_or(out.sigmas.back()), steps);
    }
  }
  if (!levels.sigmas.empty() || levels.spread != Spread::MODEL) {
    const bool rounds =
        levels.spread == Spread::KARRAS &&
        (config.sampler == Sampler::KDPM2 || config.sampler == Sampler::KDPM2_ANCESTRAL);
    out.timesteps.clear();
    for (const double sigma : out.sigmas) {
      const double t = timestep_of(sigma, training);
      out.timesteps.push_back(rounds ? std::nearbyint(t) : t);
    }
  }
  if (levels.continuous && config.diffusion.prediction_type == Prediction::V_PREDICTION) {
    for (size_t i = 0; i < out.timesteps.size(); ++i) {
      out.timesteps[i] = 0.25 * std::log(static_cast<float>(out.sigmas[i]));
    }
  }
  out.sigmas.push_back(levels.ends_at_sigma_min ? training.front() : 0.0);
  const double first = static_cast<float>(*std::ranges::max_element(out.sigmas));
  out.initial_scale =
      spacing_of(config) == Spacing::LEADING ? std::sqrt(first * first + 1.0) : first;
  out.explodes = true;
  return out;
}

void apply_shift(const ScheduleConfig& config, int64_t tokens, std::vector<double>& sigmas) {
  if (config.dynamic_shift) {
    check(
        config.even_sigmas && tokens > 0,
        "[scheduler] use_dynamic_shifting is true, but this pipeline has no shift that depends on "
        "the picture's size\n  set flow_shift, which replaces it");
    const double e = config.shift_of(tokens);
    for (double& sigma : sigmas) {
      sigma = e / (e + (1.0 / sigma - 1.0));
    }
  } else {
    for (double& sigma : sigmas) {
      sigma = shifted(sigma, config.shift);
    }
  }
  if (const std::optional<double>& end = config.levels.shift_terminal; end && *end != 0.0) {
    const double scale = (1.0 - sigmas.back()) / (1.0 - *end);
    for (double& sigma : sigmas) {
      sigma = 1.0 - (1.0 - sigma) / scale;
    }
  }
}

Ladder from_first_step(const ScheduleConfig& config, Ladder ladder) {
  for (std::vector<double>* each : {&ladder.sigmas, &ladder.timesteps}) {
    each->erase(each->begin(), each->begin() + config.first_step);
  }
  return ladder;
}

Schedule with_levels(const ScheduleConfig& config, Ladder ladder) {
  ladder = from_first_step(config, std::move(ladder));
  Schedule out{.config = config,
               .initial_scale = static_cast<float>(ladder.initial_scale),
               .explodes = ladder.explodes};
  out.sigmas.assign(ladder.sigmas.begin(), ladder.sigmas.end());
  out.timesteps.assign(ladder.timesteps.begin(), ladder.timesteps.end());
  return out;
}

}  // namespace kinema::schedulers
