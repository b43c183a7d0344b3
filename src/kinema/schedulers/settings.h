#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

/// Settings of samplers and of their noise levels: what a scheduler_config.json may say in addition
/// to the training (diffusion.h). Defaults are those of most of diffusers' classes.
namespace kinema::schedulers {

/// The variance of DDPM's noise (arXiv:2006.11239, section 3.2).
enum class Variance { FIXED_SMALL, FIXED_SMALL_LOG, FIXED_LARGE };
/// diffusers' names; throws an Error for another name, also for the learned variances, which need a
/// network that predicts them.
Variance variance_from_string(std::string_view name);
std::string_view name_of(Variance variance);

/// Settings of the solver. Each sampler reads its own.
struct Solver {
  int64_t order = 2;            // UNIPC, DPM_MULTISTEP, DPM_SINGLESTEP, DEIS: 1 to 3
  bool bh1 = false;             // UNIPC: B(h) = h, else expm1(h)
  bool heun = false;            // DPM_*STEP: solver_type heun, else midpoint
  bool stochastic = false;      // DPM_*STEP: an sde- algorithm; FLOW_MATCH_EULER: new noise
  bool ancestral = false;       // DPM_SINGLESTEP: DPM++ 2S a of k-diffusion
  bool predicts_noise = false;  // UNIPC, DPM_*STEP: history of noise, else of data predictions
  bool lower_order_final = true;
  bool euler_at_final = false;                // DPM_MULTISTEP
  std::vector<int64_t> disable_corrector{};   // UNIPC: after these steps, the corrector is skipped
  bool skip_prk_steps = false;                // PNDM: no Runge-Kutta steps at the start
  double timestep_scaling = 10.0;             // LCM
  int64_t original_inference_steps = 50;      // LCM, TCD: timesteps of the distillation
  Variance variance = Variance::FIXED_SMALL;  // DDPM

  bool operator==(const Solver&) const = default;
};

/// How noise levels lie between the largest and the smallest.
enum class Spread {
  MODEL,        // those of the visited training timesteps, or the shifted ones of a flow
  KARRAS,       // evenly spaced in sigma^(1/7) (arXiv:2206.00364, equation 5)
  EXPONENTIAL,  // evenly spaced in log sigma
  BETA,         // quantiles of the beta distribution with 0.6 and 0.6 (arXiv:2407.12173)
  LU,           // evenly spaced in log sigma, timesteps rounded (arXiv:2206.00927)
  AYS,          // levels optimized for SDXL (arXiv:2404.14507), interpolated in log sigma
};
/// `model`, `karras`, `exponential`, `beta`, `lu` or `ays`; throws an Error that lists them.
Spread spread_from_string(std::string_view name);
std::string_view name_of(Spread spread);

/// Settings of the noise levels.
struct Levels {
  Spread spread = Spread::MODEL;
  bool log_linear = false;  // EULER, interpolation_type: levels evenly spaced in log sigma
  bool continuous = false;  // EULER, timestep_type: with v_prediction, timesteps are log(sigma) / 4
  std::optional<double> sigma_min{}, sigma_max{};  // ends of KARRAS, EXPONENTIAL and BETA
  bool ends_at_sigma_min = false;  // final_sigmas_type, always for DEIS: the last level is not 0
  /// DPM_*STEP: timesteps whose half log signal-to-noise ratio is below are not visited.
  std::optional<double> lambda_min_clipped{};
  std::optional<double> shift_terminal{};  // flows: the level of the last evaluation
  bool linear_shift = false;               // flows, time_shift_type: mu is the shift, not e^mu
  bool inverted = false;                   // flows: levels rise from 0 to 1
  /// Given levels or timesteps, which replace all others: sigmas end before the last, which is 0.
  std::vector<double> sigmas{}, timesteps{};

  bool is_given() const { return !sigmas.empty() || !timesteps.empty(); }
  bool operator==(const Levels&) const = default;
};

/// What happens to a data prediction before the solver uses it.
struct Limit {
  bool threshold = false;  // dynamic thresholding (arXiv:2205.11487, section 2.3)
  double ratio = 0.995;    // the quantile of |x_0| that becomes `threshold`'s bound
  double max = 1.0;        // the largest bound
  double range = 1.0;      // clip_sample_range
  bool operator==(const Limit&) const = default;
};

/// Input and output scaling of EDM (arXiv:2206.00364, table 1).
struct Edm {
  double sigma_min = 0.002;
  double sigma_max = 80.0;
  double sigma_data = 0.5;
  double rho = 7.0;
  bool exponential = false;  // sigma_schedule, else karras
  bool operator==(const Edm&) const = default;
};

}  // namespace kinema::schedulers
