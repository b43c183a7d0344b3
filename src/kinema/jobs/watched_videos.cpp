#include "kinema/jobs/watched_videos.h"

#include <fmt/format.h>

#include <utility>

#include "kinema/core/error.h"

namespace kinema::jobs {

WatchedVideos::WatchedVideos(const resolve::Settings& loaded, const Training& training,
                             const pjrt::Client& client, io::Json flags, const Listeners& listeners)
    : loaded_(loaded),
      training_(training),
      client_(client),
      flags_(std::move(flags)),
      listeners_(listeners) {
  const resolve::VideoSchedule when = resolve::video_schedule(loaded);
  at_evaluations_ = when.at_evaluations;
  if (!when.any) {
    return;
  }
  open_videos();
  if (when.compares) {
    world::World& world = listeners_.job.world();
    compares_ = true;
    if (world.is_first()) {
      before_.emplace(training.run, videos_->first_prompt(), listeners_.job);
      has_baseline_ = before_->is_known();
    }
    has_baseline_ =
        world.communicator().broadcast(has_baseline_ ? "known" : "",
                                       {.what = "the videos from before training"}) == "known";
  }
}

void WatchedVideos::open_videos() {
  videos_.emplace(loaded_, runtime::Devices(client_, training_.step.options.place),
                  VideoModel{.network = training_.plain,
                             .trained = training_.step.network,
                             .expert = training_.step.expert,
                             .options = training_.step.options,
                             .average = training_.step.step.ema.is_on(),
                             .adapter = !training_.step.adapters.empty(),
                             .control = training_.base.control.has_value(),
                             .texts = training_.inner_texts,
                             .run = training_.run,
                             .checkpoints = training_.checkpoints->path()},
                  flags_, listeners_.job);
}

void WatchedVideos::on_request(int64_t step) {
  try {
    if (!videos_) {
      open_videos();
    }
  } catch (const Error& error) {
    listeners_.job.notice(
        fmt::format("no {}s are made, which were asked for: {}", noun(), error.what()));
    return;
  }
  compare(step + 1);
}

void WatchedVideos::before_training() {
  if (!compares_ || has_baseline_) {
    return;
  }
  if (training_.first_step > 0) {
    listeners_.job.notice(fmt::format(
        "there is no {0} from before training: enable_ssim compares with the one after {1} steps",
        noun(), training_.first_step));
  }
  if (const auto made = make(training_.first_step)) {
    has_baseline_ = true;
    if (before_) {
      before_->keep(*made);
    }
  }
}

void WatchedVideos::after_evaluation(int64_t step) {
  if (at_evaluations_) {
    compare(step + 1);
  }
}

void WatchedVideos::after_training(int64_t steps) {
  if ((at_evaluations_ || has_baseline_) && compared_ != steps) {
    compare(steps);
  }
  if (similarity_ && compared_ == steps) {
    listeners_.job.line(fmt::format("SSIM score after training is {}", similarity_->ssim));
  }
}

std::optional<RunVideos::Made> WatchedVideos::make(int64_t steps) {
  listeners_.job.world().begin(steps, fmt::format("making {}s", noun()), /*is_long=*/true);
  auto made =
      videos_->make([this](int64_t place) { return training_.experts->state(place); }, steps);
  if (made && listeners_.job.world().is_first()) {
    listeners_.records.videos(steps - 1, *made);
    listeners_.job.tell(
        listeners_.observer.on_videos,
        {.noun = noun(), .step = steps - 1, .files = made->files.videos, .seconds = made->seconds});
  }
  return made;
}

void WatchedVideos::compare(int64_t steps) {
  compared_ = steps;
  similarity_.reset();
  try {
    const auto made = make(steps);
    similarity_ = made && before_ ? before_->compare(*made) : std::nullopt;
    if (similarity_) {
      listeners_.records.similarity(steps - 1, *similarity_);
      listeners_.job.tell(listeners_.observer.on_comparison, {.noun = noun(),
                                                              .step = steps - 1,
                                                              .ssim = similarity_->ssim,
                                                              .psnr = similarity_->psnr});
    }
  } catch (const Error& error) {  // a failed video does not stop a run
    if (!videos_->is_together()) {
      throw;
    }
    listeners_.job.notice(fmt::format("no {}s after step {}: {}", noun(), steps, error.what()));
  }
}

}  // namespace kinema::jobs
