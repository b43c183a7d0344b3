#include "kinema/schedulers/diffusion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/schedulers/words.h"

namespace kinema::schedulers {
namespace {

constexpr Words<Prediction, 3> kPredictions{{{"epsilon", Prediction::EPSILON},
                                             {"v_prediction", Prediction::V_PREDICTION},
                                             {"sample", Prediction::SAMPLE}}};
constexpr Words<Spacing, 3> kSpacings{{{"leading", Spacing::LEADING},
                                       {"trailing", Spacing::TRAILING},
                                       {"linspace", Spacing::LINSPACE}}};
constexpr Words<BetaSchedule, 6> kBetaSchedules{
    {{"linear", BetaSchedule::LINEAR},
     {"scaled_linear", BetaSchedule::SCALED_LINEAR},
     {"squaredcos_cap_v2", BetaSchedule::SQUAREDCOS_CAP_V2},
     {"exp", BetaSchedule::EXP},
     {"laplace", BetaSchedule::LAPLACE},
     {"sigmoid", BetaSchedule::SIGMOID}}};

constexpr Words<TimestepBias::Strategy, 4> kStrategies{
    {{"none", TimestepBias::Strategy::NONE},
     {"later", TimestepBias::Strategy::LATER},
     {"earlier", TimestepBias::Strategy::EARLIER},
     {"range", TimestepBias::Strategy::RANGE}}};

/// `count` float32 values from `first` to `last`, computed from both ends with fused products, as
/// in torch: the same bits.
std::vector<float> torch_linspace(float first, float last, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count), first);
  const float step = count > 1 ? (last - first) / static_cast<float>(count - 1) : 0.0F;
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = i < count / 2
                                         ? std::fma(step, static_cast<float>(i), first)
                                         : std::fma(-step, static_cast<float>(count - 1 - i), last);
  }
  return values;
}

/// Cumulative products in float32, carried in double as in torch.
std::vector<float> products(const std::vector<float>& alphas) {
  std::vector<float> out;
  double product = 1.0;
  for (const float alpha : alphas) {
    product *= alpha;
    out.push_back(static_cast<float>(product));
  }
  return out;
}

/// The signal a(t), t from 0 to 1, of schedules that are given by it.
double signal(BetaSchedule schedule, double t) {
  switch (schedule) {
    case BetaSchedule::EXP:
      return std::exp(-12.0 * t);
    case BetaSchedule::LAPLACE: {
      const double sign = t <= 0.5 ? 1.0 : -1.0;
      const double lambda =
          -0.5 * sign * std::log(1.0 - 2.0 * std::abs(0.5 - t) + 1e-6);  // 1e-6: log 0 at the ends
      const double snr = std::exp(lambda);
      return std::sqrt(snr / (1.0 + snr));
    }
    default: {
      const double c = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2.0);
      return c * c;
    }
  }
}

/// 1 - beta of every timestep, in float32 as in the reference.
std::vector<float> alphas_of(const Diffusion& d, int64_t count) {
  const auto start = static_cast<float>(d.beta_start);
  const auto end = static_cast<float>(d.beta_end);
  std::vector<float> out;
  switch (d.beta_schedule) {
    case BetaSchedule::LINEAR:
      out = torch_linspace(start, end, count);
      break;
    case BetaSchedule::SCALED_LINEAR:
      out = torch_linspace(static_cast<float>(std::sqrt(d.beta_start)),
                           static_cast<float>(std::sqrt(d.beta_end)), count);
      break;
    case BetaSchedule::SIGMOID:
      for (const float x : torch_linspace(-6.0F, 6.0F, count)) {
        out.push_back(1.0F / (1.0F + std::exp(-x)) * (end - start) + start);
      }
      break;
    case BetaSchedule::SQUAREDCOS_CAP_V2:
    case BetaSchedule::EXP:
    case BetaSchedule::LAPLACE:
      for (int64_t i = 0; i < count; ++i) {
        const auto n = static_cast<double>(count);
        const auto at = static_cast<double>(i);
        constexpr double kMaxBeta = 0.999;
        out.push_back(static_cast<float>(std::min(
            1.0 - signal(d.beta_schedule, (at + 1.0) / n) / signal(d.beta_schedule, at / n),
            kMaxBeta)));
      }
      break;
  }
  if (!d.trained_betas.empty()) {
    check(static_cast<int64_t>(d.trained_betas.size()) == count,
          "[scheduler] there are {} trained_betas, expected one for each of the {} training "
          "timesteps",
          d.trained_betas.size(), count);
    out.assign(d.trained_betas.begin(), d.trained_betas.end());
  }
  const bool squares = d.beta_schedule == BetaSchedule::SCALED_LINEAR && d.trained_betas.empty();
  for (float& value : out) {
    value = 1.0F - (squares ? value * value : value);
  }
  return out;
}

/// Algorithm 1 of arXiv:2305.08891: sqrt(a) is shifted and scaled so that the last value is 0 and
/// the first unchanged.
std::vector<float> with_zero_snr(std::vector<float> cumulative) {
  const float first = std::sqrt(cumulative.front());
  const float last = std::sqrt(cumulative.back());
  std::vector<float> alphas;
  float before = 1.0F;
  for (float& a : cumulative) {
    const float root = (std::sqrt(a) - last) * (first / (first - last));
    a = root * root;
    alphas.push_back(a / before);
    before = a;
  }
  return products(alphas);
}

}  // namespace

Prediction prediction_from_string(std::string_view name) {
  return read_word(kPredictions, "prediction_type", name);
}
std::string_view name_of(Prediction prediction) { return word_of(kPredictions, prediction); }
Spacing spacing_from_string(std::string_view name) {
  return read_word(kSpacings, "timestep_spacing", name);
}
std::string_view name_of(Spacing spacing) { return word_of(kSpacings, spacing); }
BetaSchedule beta_schedule_from_string(std::string_view name) {
  return read_word(kBetaSchedules, "beta_schedule", name);
}
std::string_view name_of(BetaSchedule schedule) { return word_of(kBetaSchedules, schedule); }

std::vector<float> alphas_cumprod(const Diffusion& d, int64_t num_train_timesteps) {
  for (const auto& [key, beta] :
       {std::pair{"beta_start", d.beta_start}, {"beta_end", d.beta_end}}) {
    check(std::isfinite(beta) && beta > 0.0 && beta < 1.0,
          "[scheduler] {} is {}, expected a number between 0 and 1", key, beta);
  }
  check(num_train_timesteps >= 1, "[scheduler] num_train_timesteps is {}, expected 1 or more",
        num_train_timesteps);
  for (const double beta : d.trained_betas) {
    check(beta > 0.0 && beta < 1.0,
          "[scheduler] trained_betas has {}, expected numbers between 0 and 1", beta);
  }
  std::vector<float> cumulative = products(alphas_of(d, num_train_timesteps));
  return d.rescale_betas_zero_snr ? with_zero_snr(std::move(cumulative)) : cumulative;
}

std::vector<float> debiased_weights(const std::vector<float>& alphas_cumprod,
                                    Prediction prediction) {
  std::vector<float> out;
  for (const float a : alphas_cumprod) {
    const double snr = std::min(static_cast<double>(a) / (1.0 - static_cast<double>(a)), 1000.0);
    out.push_back(static_cast<float>(prediction == Prediction::V_PREDICTION ? 1.0 / (snr + 1.0)
                                     : snr == 0.0                           ? 1.0
                                                  : 1.0 / std::sqrt(snr)));
  }
  return out;
}

std::vector<float> min_snr_weights(const std::vector<float>& alphas_cumprod, double gamma,
                                   Prediction prediction) {
  check(std::isfinite(gamma) && gamma > 0.0,
        "[scheduler] snr_gamma is {}, expected a number above 0", gamma);
  std::vector<float> out;
  for (const float a : alphas_cumprod) {
    const double snr = static_cast<double>(a) / (1.0 - static_cast<double>(a));
    const double counted = std::min(snr, gamma);
    // Without a signal, epsilon is the whole input: its weight there is 1, the limit of the
    // formula.
    out.push_back(static_cast<float>(prediction == Prediction::V_PREDICTION ? counted / (snr + 1.0)
                                     : snr == 0.0                           ? 1.0
                                                                            : counted / snr));
  }
  return out;
}

TimestepBias::Strategy bias_strategy_from_string(std::string_view name) {
  return read_word(kStrategies, "timestep_bias.strategy", name);
}

std::vector<double> timestep_probabilities(const TimestepBias& bias, int64_t num_train_timesteps) {
  using Strategy = TimestepBias::Strategy;
  const int64_t n = num_train_timesteps;
  int64_t begin = 0;
  int64_t end = n;
  if (bias.strategy == Strategy::LATER || bias.strategy == Strategy::EARLIER) {
    check(bias.portion >= 0.0 && bias.portion <= 1.0,
          "[scheduler] timestep_bias.portion is {}, expected 0 to 1", bias.portion);
    const auto count = static_cast<int64_t>(bias.portion * static_cast<double>(n));
    begin = bias.strategy == Strategy::LATER ? n - count : 0;
    end = begin + count;
  } else if (bias.strategy == Strategy::RANGE) {
    begin = bias.begin;
    end = bias.end;
    check(begin >= 0 && begin < end && end <= n,
          "[scheduler] timestep_bias is of [{}, {}), expected a range within [0, {})", begin, end,
          n);
  }
  std::vector<double> out(static_cast<size_t>(n), 1.0);
  double sum = static_cast<double>(n);
  if (bias.strategy != Strategy::NONE) {
    check(std::isfinite(bias.multiplier) && bias.multiplier > 0.0,
          "[scheduler] timestep_bias.multiplier is {}, expected a number above 0", bias.multiplier);
    for (int64_t t = begin; t < end; ++t) {
      out[static_cast<size_t>(t)] = bias.multiplier;
    }
    sum += static_cast<double>(end - begin) * (bias.multiplier - 1.0);
  }
  for (double& each : out) {
    each /= sum;
  }
  return out;
}

}  // namespace kinema::schedulers
