#include "kinema/schedulers/discrete.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"

namespace kinema::schedulers {
namespace {

/// Decreasing timesteps. Only LINSPACE has fractions.
std::vector<double> spaced(const ScheduleConfig& config, int64_t steps) {
  const auto train = static_cast<double>(config.num_train_timesteps);
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

/// A table's value between its integer positions.
double interpolated(const std::vector<double>& table, double at) {
  const auto last = static_cast<double>(table.size() - 1);
  at = std::clamp(at, 0.0, last);
  const auto low = static_cast<size_t>(std::floor(at));
  const size_t high = std::min(low + 1, table.size() - 1);
  const double part = at - static_cast<double>(low);
  return table[low] + part * (table[high] - table[low]);
}

double sigma_of(double a) { return std::sqrt((1.0 - a) / a); }

Schedule euler(const ScheduleConfig& config, int64_t steps) {
  std::vector<double> all;
  for (const float a : alphas_cumprod(config.diffusion, config.num_train_timesteps)) {
    // The reference moves the last value off 0, where sigma would be infinite.
    all.push_back(sigma_of(std::max(static_cast<double>(a), 0x1p-24)));
  }
  Schedule out{.config = config};
  for (const double t : spaced(config, steps)) {
    out.timesteps.push_back(static_cast<float>(t));
    out.sigmas.push_back(static_cast<float>(interpolated(all, static_cast<float>(t))));
  }
  out.sigmas.push_back(0.0F);
  const double first = *std::ranges::max_element(out.sigmas);
  out.initial_scale = static_cast<float>(
      spacing_of(config) == Spacing::LEADING ? std::sqrt(first * first + 1.0) : first);
  for (int64_t i = 0; i < steps; ++i) {
    const double sigma = out.sigmas[i];
    const double step = out.sigmas[i + 1] - sigma;
    const double one = sigma * sigma + 1.0;
    StepCoefficients k{.input = static_cast<float>(1.0 / std::sqrt(one))};
    if (config.diffusion.prediction_type == Prediction::EPSILON) {
      // x_0 = x - sigma e, and the derivative (x - x_0) / sigma is e.
      k.data_v = static_cast<float>(-sigma);
      k.from_c = 1;
      k.from_v = static_cast<float>(step);
    } else {
      k.data_x = static_cast<float>(1.0 / one);
      k.data_v = static_cast<float>(-sigma / std::sqrt(one));
      k.from_c = static_cast<float>(1.0 + step / sigma);
      k.from_m0 = static_cast<float>(-step / sigma);
    }
    out.steps.push_back(k);
  }
  return out;
}

Schedule ddim(const ScheduleConfig& config, int64_t steps) {
  const std::vector<float> all = alphas_cumprod(config.diffusion, config.num_train_timesteps);
  const bool epsilon = config.diffusion.prediction_type == Prediction::EPSILON;
  Schedule out{.config = config};
  for (const double spaced_t : spaced(config, steps)) {
    const auto t = static_cast<int64_t>(std::nearbyint(spaced_t));
    // Of a trained schedule only the last timestep has no signal, which most LEADING ones omit.
    check(!epsilon || all[static_cast<size_t>(t)] > 0.0F,
          "[scheduler] timestep {} has no signal (rescale_betas_zero_snr), so a model that "
          "predicts epsilon says nothing about the data there\n  use scheduler=euler, which moves "
          "that timestep, or timestep_spacing `leading` in scheduler_config.json",
          t);
    // Back by this distance, regardless of the next timestep in the list.
    const int64_t before = t - config.num_train_timesteps / steps;
    const double a = all[static_cast<size_t>(t)];
    const double next = before >= 0                         ? all[static_cast<size_t>(before)]
                        : config.diffusion.set_alpha_to_one ? 1.0
                                                            : all.front();
    out.timesteps.push_back(static_cast<float>(t));
    out.sigmas.push_back(static_cast<float>(sigma_of(std::max(a, 0x1p-24))));
    const double signal = std::sqrt(a);
    const double noise = std::sqrt(1.0 - a);
    const double next_noise = std::sqrt(1.0 - next);
    StepCoefficients k;
    k.from_m0 = static_cast<float>(std::sqrt(next));
    if (epsilon) {
      k.data_x = static_cast<float>(1.0 / signal);
      k.data_v = static_cast<float>(-noise / signal);
      k.from_v = static_cast<float>(next_noise);
    } else {
      // eps = sqrt(a) v + sqrt(1 - a) x
      k.data_x = static_cast<float>(signal);
      k.data_v = static_cast<float>(-noise);
      k.from_c = static_cast<float>(next_noise * noise);
      k.from_v = static_cast<float>(next_noise * signal);
    }
    out.steps.push_back(k);
  }
  out.sigmas.push_back(0.0F);
  return out;
}

}  // namespace

Schedule discrete_schedule(const ScheduleConfig& config, int64_t num_inference_steps) {
  check(config.diffusion.steps_offset >= 0, "[scheduler] steps_offset is {}, expected 0 or more",
        config.diffusion.steps_offset);
  return config.sampler == Sampler::EULER ? euler(config, num_inference_steps)
                                          : ddim(config, num_inference_steps);
}

}  // namespace kinema::schedulers
