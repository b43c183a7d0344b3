#include "kinema/cli/watched_videos.h"

#include <fmt/format.h>

#include <utility>

#include "kinema/cli/commands.h"
#include "kinema/core/error.h"
#include "kinema/training/stop_signal.h"

namespace kinema::cli {

WatchedVideos::WatchedVideos(const config::Loaded& loaded, const Training& training,
                             const pjrt::Client& client, io::Json flags, RunRecords& records)
    : training_(training), records_(records) {
  const config::RunConfig& run = loaded.config.run;
  at_evaluations_ = run.enable_generate_video_for_eval && run.eval_every > 0;
  if (!makes_videos(run)) {
    return;
  }
  videos_.emplace(loaded, runtime::Devices(client, training.options.place),
                  VideoModel{.sizes = training.model,
                             .expert = training.expert,
                             .options = training.options,
                             .average = !training.trainer->state().parts.ema.empty(),
                             .run = training.run,
                             .checkpoints = training.checkpoints->path()},
                  std::move(flags));
  if (run.enable_ssim) {
    before_.emplace(training.run, videos_->first_prompt());
  }
}

void WatchedVideos::before_training() {
  if (!before_ || before_->is_known()) {
    return;
  }
  if (training_.first_step > 0) {
    warn(fmt::format(
        "no video from before the training is kept: enable_ssim compares with one after {} steps",
        training_.first_step));
  }
  if (const auto made = make(training_.first_step)) {
    before_->keep(*made);
  }
}

void WatchedVideos::after_evaluation(int64_t step) {
  if (at_evaluations_) {
    compare(step + 1);
  }
}

void WatchedVideos::after_training(int64_t steps) {
  const bool compares = before_ && before_->is_known();
  if ((at_evaluations_ || compares) && compared_ != steps) {
    compare(steps);
  }
  if (likeness_ && compared_ == steps) {
    records_.line(fmt::format("SSIM score after training is {}", likeness_->ssim));
  }
}

std::optional<RunVideos::Made> WatchedVideos::make(int64_t steps) {
  auto made = videos_->make(training_.trainer->state(), steps,
                            [] { return training::StopSignal::requested(); });
  if (made) {
    records_.videos(steps - 1, *made);
  }
  return made;
}

void WatchedVideos::compare(int64_t steps) {
  compared_ = steps;
  likeness_.reset();
  try {
    const auto made = make(steps);
    likeness_ = made && before_ ? before_->compare(*made) : std::nullopt;
    if (likeness_) {
      records_.likeness(steps - 1, *likeness_);
    }
  } catch (const Error& error) {  // a video is not worth a run
    warn(fmt::format("no videos after step {}: {}", steps, error.what()));
  }
}

}  // namespace kinema::cli
