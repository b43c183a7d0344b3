#include "kinema/schedulers/settings.h"

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/schedulers/words.h"

namespace kinema::schedulers {
namespace {

constexpr Words<Variance, 3> kVariances{{{"fixed_small", Variance::FIXED_SMALL},
                                         {"fixed_small_log", Variance::FIXED_SMALL_LOG},
                                         {"fixed_large", Variance::FIXED_LARGE}}};
constexpr Words<Spread, 6> kSpreads{{{"model", Spread::MODEL},
                                     {"karras", Spread::KARRAS},
                                     {"exponential", Spread::EXPONENTIAL},
                                     {"beta", Spread::BETA},
                                     {"lu", Spread::LU},
                                     {"ays", Spread::AYS}}};

}  // namespace

Variance variance_from_string(std::string_view name) {
  check(
      name != "learned" && name != "learned_range" && name != "fixed_large_log",
      "[scheduler] variance_type is `{}`, expected fixed_small, fixed_small_log or fixed_large\n  "
      "the learned ones need a network that predicts them; the logarithm of a variance is below 0",
      name);
  return read_word(kVariances, "variance_type", name);
}
std::string_view name_of(Variance variance) { return word_of(kVariances, variance); }

Spread spread_from_string(std::string_view name) {
  // ComfyUI's and AUTOMATIC1111's names for spacings of timesteps.
  const bool is_trailing = name == "sgm_uniform" || name == "simple";
  check(!is_trailing && name != "ddim_uniform" && name != "normal",
        "[scheduler] noise_levels is `{}`, which is a spacing of timesteps\n  {}", name,
        name == "normal" ? "noise_levels=model, the default"
                         : fmt::format("diffusion_scheduler_config='{{timestep_spacing: {}}}'",
                                       is_trailing ? "trailing" : "leading"));
  return read_word(kSpreads, "noise_levels", name);
}
std::string_view name_of(Spread spread) { return word_of(kSpreads, spread); }

}  // namespace kinema::schedulers
