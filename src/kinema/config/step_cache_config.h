#pragma once

#include <cstdint>
#include <vector>

#include "kinema/config/field.h"

namespace kinema::config {

/// Results that denoising steps use again.
struct StepCacheConfig {
  bool use_cfg_cache = false;
  bool use_kv_cache = false;
  bool use_sen_cache = false;
  bool use_magcache = false;
  double magcache_thresh = 0.12;
  int64_t magcache_K = 2;
  double retention_ratio = 0.2;
  std::vector<double> mag_ratios_base;
  std::vector<double> mag_ratios_base_720p;
  std::vector<double> mag_ratios_base_480p;

  bool operator==(const StepCacheConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit(
        "use_kv_cache", self.use_kv_cache, UNRELATED,
        {.help =
             "compute the text's cross-attention keys and values once: same result up to rounding",
         .share = Share::YES});
    visit("use_cfg_cache", self.use_cfg_cache, UNRELATED,
          {.help = "after a third of the steps, reuse the negative prompt's prediction in four of "
                   "five steps (FasterCache)",
           .share = Share::YES});
    visit("use_sen_cache", self.use_sen_cache, UNRELATED,
          {.help = "reuse the last prediction while latents and timestep change little (SenCache)",
           .share = Share::YES});
    visit("use_magcache", self.use_magcache, UNRELATED,
          {.help = "skip the blocks while a table of the model predicts a small change (MagCache)",
           .share = Share::YES});
    visit("magcache_thresh", self.magcache_thresh, UNRELATED,
          {.help = "accumulated error at which a full step is computed",
           .min = 0,
           .with = "use_magcache",
           .share = Share::YES});
    visit("magcache_K", self.magcache_K, UNRELATED,
          {.help = "maximum number of consecutive skipped steps",
           .min = 0,
           .with = "use_magcache",
           .share = Share::YES});
    visit("retention_ratio", self.retention_ratio, UNRELATED,
          {.help = "fraction of steps, from the first, that are never skipped",
           .min = 0,
           .max = 1,
           .with = "use_magcache",
           .share = Share::YES});
    visit("mag_ratios_base", self.mag_ratios_base, UNRELATED,
          {.help = "the model's table: two numbers per step, with and without prompt",
           .above = 0,
           .with = "use_magcache",
           .share = Share::YES});
    visit("mag_ratios_base_720p", self.mag_ratios_base_720p, UNRELATED,
          {.help = "table for heights from 720, where mag_ratios_base is empty",
           .above = 0,
           .with = "use_magcache",
           .share = Share::YES});
    visit("mag_ratios_base_480p", self.mag_ratios_base_480p, UNRELATED,
          {.help = "table for heights below 720, where mag_ratios_base is empty",
           .above = 0,
           .with = "use_magcache",
           .share = Share::YES});
  }
};

}  // namespace kinema::config
