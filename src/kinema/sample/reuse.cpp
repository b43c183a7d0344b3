#include "kinema/sample/reuse.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

// The constants of the reference's implementation.
constexpr int64_t kGuidanceInterval = 5;  // a full step after this many steps
constexpr double kGuidanceBoost = 0.2;
constexpr double kSenTolerance = 0.1;
constexpr int64_t kSenLongest = 3;
constexpr double kSenWholeAtStart = 0.3;
constexpr double kSenWholeAtEnd = 0.1;

void check_table(const std::vector<double>& ratios) {
  check(!ratios.empty() && ratios.size() % 2 == 0 &&
            std::ranges::all_of(ratios, [](double r) { return std::isfinite(r); }),
        "[sample] the table of magnitude ratios (mag_ratios_base) has {} values, expected two "
        "finite ones a step",
        ratios.size());
}

/// n entries of every second value from `offset`, each the nearest of the table's.
std::vector<double> nearest(const std::vector<double>& table, size_t offset, int64_t n) {
  const auto count = static_cast<int64_t>(table.size() / 2);
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) {
    const double at = n == 1 ? static_cast<double>(count - 1)
                             : static_cast<double>(i) *
                                   (static_cast<double>(count - 1) / static_cast<double>(n - 1));
    // Halves are rounded to even, as in the reference.
    out.push_back(table[2 * static_cast<size_t>(std::nearbyint(at)) + offset]);
  }
  return out;
}

/// True for the steps at the start of a phase that are always full.
bool is_retained(const MagCache& cache, int64_t step, int64_t steps, std::optional<int64_t> split) {
  const double r = cache.retention;
  const auto truncated = [](double x) { return static_cast<int64_t>(x); };
  if (!split) {
    return step < truncated(static_cast<double>(steps) * r);
  }
  const auto low = static_cast<double>(steps - *split);
  // The sum of the other expert's blocks cannot be reused: the first step of an expert is full.
  if (step == *split) {
    return true;
  }
  if (cache.image_to_video) {
    return step < truncated(static_cast<double>(*split) + low * r);
  }
  return step < truncated(static_cast<double>(*split) * r) ||
         (step >= *split && static_cast<double>(step) <= low * r + static_cast<double>(*split));
}

/// The errors of one branch since its last full step.
struct Drift {
  double ratio = 1.0;
  double error = 0.0;

  Drift after(double step_ratio) const {
    const double now = ratio * step_ratio;
    return {.ratio = now, .error = error + std::abs(1.0 - now)};
  }
};

}  // namespace

std::vector<bool> magcache_skips(const MagCache& cache, int64_t steps, std::optional<int64_t> split,
                                 bool guided) {
  check_table(cache.ratios);
  const std::vector<double> prompted = nearest(cache.ratios, 0, steps);
  const std::vector<double> plain = nearest(cache.ratios, 1, steps);
  std::vector<bool> skips;
  Drift a;
  Drift b;
  int64_t skipped = 0;
  for (int64_t i = 0; i < steps; ++i) {
    bool skip = false;
    if (!is_retained(cache, i, steps, split)) {
      const Drift next_a = a.after(prompted[static_cast<size_t>(i)]);
      const Drift next_b = b.after(plain[static_cast<size_t>(i)]);
      skip = i > 0 && skipped < cache.longest_skip && next_a.error < cache.threshold &&
             (!guided || next_b.error < cache.threshold);
      a = skip ? next_a : Drift();
      b = skip ? next_b : Drift();
      skipped = skip ? skipped + 1 : 0;
    }
    if (split && i == *split) {
      a = b = Drift();
      skipped = 0;
    }
    skips.push_back(skip);
  }
  return skips;
}

std::vector<GuidanceReuse> guidance_reuse(const GuidanceCache& cache, int64_t steps,
                                          std::optional<int64_t> split) {
  const int64_t start = steps / 3;
  const int64_t end = cache.height >= 720 ? static_cast<int64_t>(static_cast<double>(steps) * 0.9)
                                          : steps - (split ? 1 : 2);
  // Later steps decide details, where high frequencies have more weight; earlier steps decide
  // shapes.
  const int64_t details = split.value_or(steps / 2);
  std::vector<GuidanceReuse> out;
  bool whole_seen = false;  // of the transformer that reuses
  for (int64_t i = 0; i < steps; ++i) {
    GuidanceReuse step;
    const bool may = !split || i >= *split;
    step.reuse = may && whole_seen && i >= start && i < end && (i - start) % kGuidanceInterval != 0;
    whole_seen = whole_seen || (may && !step.reuse);
    (i < details ? step.low : step.high) += kGuidanceBoost;
    out.push_back(step);
  }
  return out;
}

bool SenCache::reuse(int64_t step, double time, double drift) {
  const auto n = static_cast<double>(steps_);
  const bool whole = step == 0 || step < static_cast<int64_t>(n * kSenWholeAtStart) ||
                     step >= static_cast<int64_t>(n * (1.0 - kSenWholeAtEnd)) ||
                     (split_ && step == *split_);
  if (!whole) {
    score_ += drift + std::abs(time - reference_time_);
    if (score_ <= kSenTolerance && reused_ < kSenLongest) {
      ++reused_;
      return true;
    }
  }
  score_ = 0;
  reused_ = 0;
  reference_time_ = time;
  return false;
}

void check_reuse(const ReuseSettings& settings, bool guided) {
  const int ways =
      (settings.magcache ? 1 : 0) + (settings.guidance ? 1 : 0) + (settings.sencache ? 1 : 0);
  check(ways <= 1,
        "[sample] use_magcache, use_cfg_cache and use_sen_cache cannot be combined: choose one");
  if (settings.magcache) {
    check_table(settings.magcache->ratios);
  }
  check(
      guided || !settings.guidance,
      "[sample] use_cfg_cache reuses the negative prompt's prediction, which is not computed: the "
      "guidance scale is 1 or less");
  check(guided || !settings.sencache,
        "[sample] use_sen_cache needs guidance, but the guidance scale "
        "is 1 or less");
}

ReusePlan::ReusePlan(const ReuseSettings& settings, int64_t steps, std::optional<int64_t> split,
                     bool guided) {
  if (settings.magcache) {
    skips_ = magcache_skips(*settings.magcache, steps, split, guided);
    if (std::ranges::find(skips_, true) != skips_.end()) {
      whole_ = Reuse::KEEP_BLOCKS;
    }
  } else if (settings.guidance) {
    guidance_ = guidance_reuse(*settings.guidance, steps, split);
    if (std::ranges::any_of(guidance_, &GuidanceReuse::reuse)) {
      whole_ = Reuse::KEEP_BRANCHES;
    }
  } else if (settings.sencache) {
    sencache_.emplace(steps, split);
    whole_ = Reuse::KEEP_VELOCITY;
  }
}

Reuse ReusePlan::at(int64_t step, double time, double drift) {
  const auto i = static_cast<size_t>(step);
  if (!skips_.empty() && skips_.at(i)) {
    return Reuse::BLOCKS;
  }
  if (!guidance_.empty() && guidance_.at(i).reuse) {
    return Reuse::BRANCH;
  }
  if (sencache_ && sencache_->reuse(step, time, drift)) {
    return Reuse::VELOCITY;
  }
  return whole_;
}

}  // namespace kinema::sample
