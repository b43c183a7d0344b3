#pragma once

#include <cstdint>
#include <optional>
#include <vector>

/// Which sampling steps take a part of their result from an earlier step.
namespace kinema::sample {

/// What a step takes from an earlier one, and what it keeps for later ones.
enum class Reuse : uint8_t {
  NOTHING,
  KEEP_BLOCKS,    // keeps what the blocks added to the tokens
  BLOCKS,         // adds that instead of running the blocks
  KEEP_BRANCHES,  // keeps the velocities with the prompt and with the negative prompt
  BRANCH,         // makes the prompt's, and estimates the other from the difference of those
  KEEP_VELOCITY,  // keeps the velocity and where the sample was
  VELOCITY,       // takes that velocity: the transformer does not run
};

/// Whether such a step computes less than a whole one.
constexpr bool is_reuse(Reuse reuse) {
  return reuse == Reuse::BLOCKS || reuse == Reuse::BRANCH || reuse == Reuse::VELOCITY;
}

/// MagCache (arXiv:2506.09045): a step may add to its tokens what the blocks added at an earlier
/// step, as long as a table of how that sum's magnitude changes from step to step says that the
/// error stays small.
struct MagCache {
  /// Measured ratios: for each step of some run, one for the prompt's pass and one for the negative
  /// prompt's. A run of another number of steps reads the nearest.
  std::vector<double> ratios;
  double threshold = 0.12;   // of the errors summed up since the last whole step
  int64_t longest_skip = 2;  // steps in a row
  double retention = 0.2;    // share of the steps, from the beginning, that are always whole
  /// The ratios of an image-to-video model: with two experts, only the low-noise one skips.
  bool image_to_video = false;
};

/// FasterCache's guidance (arXiv:2410.19355): between whole steps, the negative prompt's velocity
/// is the prompt's plus an old difference of the two, whose low or high frequencies count more.
struct GuidanceCache {
  /// Frames of so many rows and more end the reuse earlier.
  int64_t height = 480;
};

/// One step of the guidance cache.
struct GuidanceReuse {
  bool reuse = false;
  double low = 1.0;   // weight of the old difference's low frequencies
  double high = 1.0;  // and of the others
};

// `split` is the first step of the low-noise expert; nothing for one transformer.

/// For each step, whether it skips the blocks. Throws an Error for a table that is empty or odd.
std::vector<bool> magcache_skips(const MagCache& cache, int64_t steps, std::optional<int64_t> split,
                                 bool guided);

/// For each step, whether it makes the prompt's pass alone.
std::vector<GuidanceReuse> guidance_reuse(const GuidanceCache& cache, int64_t steps,
                                          std::optional<int64_t> split);

/// SenCache (arXiv:2602.24208) with equal sensitivities: a step takes the velocity of the last
/// whole step while sample and time have moved little since. Decides as the run goes.
class SenCache {
 public:
  SenCache(int64_t steps, std::optional<int64_t> split) : steps_(steps), split_(split) {}

  /// Whether `step` takes the last whole step's velocity. `drift` is the root mean square distance
  /// of the sample from where it was at that step; `time` is t / 1000. To be asked for every step,
  /// in order.
  bool reuse(int64_t step, double time, double drift);

 private:
  int64_t steps_;
  std::optional<int64_t> split_;
  double reference_time_ = 0;
  double score_ = 0;
  int64_t reused_ = 0;
};

/// Which of them are used; at most one but for `keys`.
struct ReuseSettings {
  /// Keys and values of the text and image are made once for each expert, not at every step. Keeps
  /// the result but for rounding.
  bool keys = false;
  std::optional<MagCache> magcache;
  std::optional<GuidanceCache> guidance;
  bool sencache = false;
};

/// Throws an Error when more than one way to skip is asked for, for a table that is none, and for
/// the guidance cache and SenCache where there is no guidance. `guided`: at every expert.
void check_reuse(const ReuseSettings& settings, bool guided);

/// What each step of one batch's run reuses.
class ReusePlan {
 public:
  /// `guided`: at some expert.
  ReusePlan(const ReuseSettings& settings, int64_t steps, std::optional<int64_t> split,
            bool guided);

  /// What whole steps keep: NOTHING where no step would take it.
  Reuse whole() const { return whole_; }
  /// To be asked for every step, in order; see SenCache::reuse.
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
