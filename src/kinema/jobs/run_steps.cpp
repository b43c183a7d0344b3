#include "kinema/jobs/run_steps.h"

#include <memory>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/jobs/run_requests.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/reports/process_times.h"

namespace kinema::jobs {
namespace {

/// Sums the time of each part of the loop; the first step is separate, because it may include
/// setup.
void measure(training::LoopParts& parts, training::Timings& timings, const Job& job) {
  world::World& world = job.world();
  parts.begin_step = [&world, begin = parts.begin_step](int64_t step) {
    if (begin) {
      begin(step);
    }
    world.begin(step + 1, "waiting for data");
  };
  // This process's own time, without waiting for others.
  const auto own = std::make_shared<reports::StepTimer>();
  parts.next_batch = [&timings, own, next = parts.next_batch] {
    own->begin();
    return timings.measure("waiting for data", next);
  };
  parts.run_step = [&timings, &world, own, step = parts.run_step, first = true](
                       int64_t i, double rate, const data::Batch& batch) mutable {
    world.begin(i + 1, "in the step");
    const char* phase = std::exchange(first, false) ? "first step" : "steps";
    const training::StepResult result =
        timings.measure(phase, [&] { return step(i, rate, batch); });
    if (world::Heartbeat* const heartbeat = world.heartbeat()) {
      heartbeat->finished(own->of_step(i + 1));
    }
    return result;
  };
  parts.save = [&timings, &job, save = parts.save](int64_t steps, bool go_on) {
    const auto writing = job.task("writing the checkpoint");
    job.world().begin(steps, "writing a checkpoint", /*is_long=*/true);
    timings.measure("checkpoints", [&] { save(steps, go_on); });
  };
  parts.saved = [&timings, &job, saved = parts.saved](bool wait) {
    if (wait) {
      const auto writing = job.task("writing the checkpoint");
      timings.measure("checkpoints", [&] { saved(true); });
    } else {
      saved(false);
    }
  };
  parts.evaluate = [&timings, &world, evaluate = parts.evaluate](int64_t step) {
    world.begin(step + 1, "evaluating", /*is_long=*/true);
    timings.measure("evaluation", [&] { evaluate(step); });
  };
}

/// Runs the evaluation after a step and makes its videos.
void evaluate_after(Training& training, int64_t step, const StepListeners& listeners) {
  if (training.evaluator) {
    const auto evaluating = listeners.job.task("evaluating");
    const Stopwatch watch;
    const Evaluation evaluation = training.evaluate();
    const double seconds = watch.seconds();
    listeners.records.evaluation(step, evaluation);
    training.early_stopping.add(step + 1, evaluation.loss);
    listeners.job.tell(listeners.observer.on_evaluation, step, evaluation, seconds);
  }
  listeners.videos.after_evaluation(step);
}

}  // namespace

bool FolderWatch::is_gone() {
  constexpr double kPause = 1;  // seconds; the folder may be on a slow file system
  if (!gone_ && since_.seconds() >= kPause) {
    gone_ = lock_ && !lock_->is_in_place();
    since_.restart();
  }
  return gone_;
}

void FolderWatch::check(const std::filesystem::path& run, int64_t steps,
                        const std::filesystem::path& checkpoints) const {
  kinema::check(!gone_,
                "[train] run folder {} was deleted during the run: stopped after {} steps\n  the "
                "state is saved in {}; what else was in the folder is gone",
                run.string(), steps, checkpoints.string());
}

training::LoopEnd run_steps(Training& training, const resolve::LoopSettings& settings,
                            const StepListeners& listeners, const pjrt::Client& client,
                            FolderWatch& folder, std::optional<StepRecord>& last) {
  const TrainObserver& observer = listeners.observer;
  const Job& job = listeners.job;
  RunRecords& records = listeners.records;
  training::LoopParts parts = training.parts();
  std::optional<training::ProfileWindow> profile;
  const auto say = [&job](const std::string& line) {
    if (!line.empty()) {
      job.line(line);
    }
  };
  if (settings.profile && training.first_step < training.loop.max_steps) {
    profile.emplace(*settings.profile, client.plugin(), settings.profile_folder,
                    training.first_step, training.loop.max_steps);
    parts.begin_step = [&](int64_t step) { say(profile->before_step(step)); };
  }
  parts.report = [&](const StepRecord& measured) {
    StepRecord record = training.measured(measured);
    if (job.world().is_first()) {
      record.process_seconds = reports::process_seconds(job.world().heartbeat());
    }
    last = record;
    records.step(record);
    job.tell(observer.on_step, record);
  };
  parts.evaluate = [&](int64_t step) { evaluate_after(training, step, listeners); };
  RunRequests requests(training.run, job);
  parts.asked = [&] { return requests.take(); };
  parts.sample = [&](int64_t step) { listeners.videos.on_request(step); };
  training.log = say;
  // With several processes, a stop that one process knows is exchanged in the step.
  training.experts->set_stop_requested(
      [&] { return job.local_stop_requested() || folder.is_gone(); });
  parts.run_step = [&job, step = parts.run_step](int64_t i, double rate, const data::Batch& batch) {
    const training::StepResult result = step(i, rate, batch);
    if (result.stop) {
      job.set_agreed_stop();
    }
    return result;
  };
  const bool shared = !job.world().is_alone();
  parts.stop_requested = [&, shared] {
    return job.stop_requested() || (!shared && folder.is_gone()) ||
           settings.is_over(training.early_stopping);
  };
  parts.say = [&job](const std::string& text) { job.notice(text); };
  measure(parts, training.timings, job);
  std::optional<pjrt::TransferGuard> guard;
  if (settings.transfer_guard) {
    guard.emplace("the training steps");
  }
  const training::LoopEnd end = training::train_loop(training.loop, parts);
  if (profile) {
    if (last) {
      const std::vector<std::vector<double>> steps = {last->process_seconds};
      say(reports::slowest_process(steps));
    }
    say(profile->finish());
  }
  return end;
}

}  // namespace kinema::jobs
