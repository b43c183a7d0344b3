#pragma once

#include <cstdint>
#include <optional>
#include <vector>

/// Sampling steps that reuse results of earlier steps.
namespace kinema::sample {

/// What a step reuses, and what it keeps for later steps.
enum class Reuse : uint8_t {
  NOTHING,
  KEEP_BLOCKS,    // keeps the sum that the blocks added to the tokens
  BLOCKS,         // adds that sum instead of running the blocks
  KEEP_BRANCHES,  // keeps the velocities with the prompt and with the negative prompt
  BRANCH,         // computes the prompt's, estimates the other from the kept difference
  KEEP_VELOCITY,  // keeps the velocity and the sample
  VELOCITY,       // reuses that velocity: the transformer does not run
};

/// True for steps that compute less than a full one.
constexpr bool is_reuse(Reuse reuse) {
  return reuse == Reuse::BLOCKS || reuse == Reuse::BRANCH || reuse == Reuse::VELOCITY;
}

/// MagCache (arXiv:2506.09045): a step may reuse the sum that the blocks added in an earlier step,
/// while the estimated error stays small. The estimate uses a table of the ratios of the sum's
/// magnitudes between steps.
struct MagCache {
  /// Measured ratios: per step of some run, one for the prompt's pass and one for the negative
  /// prompt's. A run with another number of steps uses the nearest step.
  std::vector<double> ratios;
  double threshold = 0.12;   // of the errors summed since the last full step
  int64_t longest_skip = 2;  // consecutive steps
  double retention = 0.2;    // fraction of the steps, from the start, that are always full
  /// The ratios are an image-to-video model's: of two experts, only the low-noise one skips.
  bool image_to_video = false;
};

/// FasterCache's guidance (arXiv:2410.19355): between full steps, the negative prompt's velocity is
/// the prompt's plus an old difference of the two, with weights for its low and high frequencies.
struct GuidanceCache {
  /// Frames with at least this many rows end the reuse earlier.
  int64_t height = 480;
};

/// One step of the guidance cache.
struct GuidanceReuse {
  bool reuse = false;
  double low = 1.0;   // weight of the old difference's low frequencies
  double high = 1.0;  // and of the high frequencies
};

// `split` is the first step of the low-noise expert; nothing if there is one transformer.

/// For each step, true if it skips the blocks. Throws an Error if the table is empty or has an odd
/// length.
std::vector<bool> magcache_skips(const MagCache& cache, int64_t steps, std::optional<int64_t> split,
                                 bool guided);

/// For each step, whether it computes the prompt's pass only.
std::vector<GuidanceReuse> guidance_reuse(const GuidanceCache& cache, int64_t steps,
                                          std::optional<int64_t> split);

/// SenCache (arXiv:2602.24208) with equal sensitivities: a step reuses the velocity of the last
/// full step while sample and timestep have changed little since. Decided during the run.
class SenCache {
 public:
  SenCache(int64_t steps, std::optional<int64_t> split) : steps_(steps), split_(split) {}

  /// True if `step` reuses the last full step's velocity. `drift` is the root mean square distance
  /// of the sample from that at the full step; `time` is t / 1000. Call it for every step, in
  /// order.
  bool reuse(int64_t step, double time, double drift);

 private:
  int64_t steps_;
  std::optional<int64_t> split_;
  double reference_time_ = 0;
  double score_ = 0;
  int64_t reused_ = 0;
};

/// The enabled kinds of reuse; at most one besides `keys`.
struct ReuseSettings {
  /// Keys and values of the text and image are computed once per expert, not at every step. Changes
  /// results by rounding only.
  bool keys = false;
  std::optional<MagCache> magcache;
  std::optional<GuidanceCache> guidance;
  bool sencache = false;
};

/// Throws an Error if more than one kind of skipping is enabled, for an invalid table, and for the
/// guidance cache and SenCache without guidance. `guided`: at every expert.
void check_reuse(const ReuseSettings& settings, bool guided);

/// The reuse of each step of one batch.
class ReusePlan {
 public:
  /// `guided`: at any expert.
  ReusePlan(const ReuseSettings& settings, int64_t steps, std::optional<int64_t> split,
            bool guided);

  /// What full steps keep: NOTHING if no step would use it.
  Reuse whole() const { return whole_; }
  /// Call it for every step, in order; see SenCache::reuse.
  Reuse at(int64_t step, double time, double drift);
  GuidanceReuse weights(int64_t step) const {
    return guidance_.empty() ? GuidanceReuse() : guidance_.at(static_cast<size_t>(step));
  }

 private:
  Reuse whole_ = Reuse::NOTHING;
  std::vector<bool> skips_;
  std::vector<GuidanceReuse> guidance_;
  std::optional<SenCache> sencache_;
};

}  // namespace kinema::sample
