#include "kinema/agents/episode_player.h"

#include <utility>

namespace kinema::agents {

EpisodePlayer::EpisodePlayer(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

void EpisodePlayer::set(const ActingParameters& parameters) {
  if (driver_->actor() != nullptr) {
    driver_->actor()->set(parameters);
  }
}

std::vector<Episode> EpisodePlayer::play(
    int64_t episodes, const std::function<bool()>& stops,
    const std::function<void(const Transition&, int64_t done)>& on_step) {
  const int64_t n = driver_->size();
  // Environment i plays its share; further episodes are not counted.
  std::vector<int64_t> left(static_cast<size_t>(n), episodes / n);
  for (int64_t i = 0; i < episodes % n; ++i) {
    ++left[static_cast<size_t>(i)];
  }
  std::vector<bool> has_begun(static_cast<size_t>(n), false);  // in this call
  std::vector<Episode> out;
  while (std::ssize(out) < episodes && !stops()) {
    std::vector<uint8_t> ended;
    const std::vector<Episode> now = driver_->step(calls_++, [&](const Transition& transition) {
      for (size_t i = 0; i < has_begun.size(); ++i) {
        has_begun[i] = has_begun[i] || transition.is_first[i] != 0;
      }
      ended = transition.is_last;
      on_step(transition, std::ssize(out));
    });
    size_t next = 0;
    for (size_t i = 0; i < ended.size(); ++i) {
      if (ended[i] == 0) {
        continue;
      }
      const Episode& episode = now[next++];
      if (has_begun[i] && left[i] > 0) {
        --left[i];
        out.push_back(episode);
      }
    }
  }
  return out;
}

}  // namespace kinema::agents
