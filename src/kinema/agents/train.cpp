#include "kinema/agents/train.h"

#include <algorithm>

#include "kinema/agents/driver.h"
#include "kinema/agents/run_logs.h"
#include "kinema/agents/run_parts.h"
#include "kinema/agents/spaces.h"
#include "kinema/agents/train_run.h"
#include "kinema/checkpoints/run_lock.h"
#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/atomic_write.h"

namespace kinema::agents {

io::Json TrainResult::json() const {
  return io::Json::object({{"run_folder", run_folder},
                           {"stopped", stopped},
                           {"step", step},
                           {"updates", updates},
                           {"episodes", episodes},
                           {"score", score},
                           {"seconds", seconds},
                           {"train_seconds", train_seconds}});
}

namespace {

/// Episodes of the agent of run.from_checkpoint, until there are run.steps steps of them.
TrainResult evaluate_only(const Settings& settings, const TrainObserver& observer, const Job& job) {
  const std::string& from = settings.text("run.from_checkpoint");
  check(!from.empty(), "[settings] script=eval_only needs the agent of run.from_checkpoint=PATH");
  const std::filesystem::path folder = run_folder(settings);
  checkpoints::RunLock lock(folder);
  const Device device = open_device(settings);
  const auto seed = static_cast<uint64_t>(settings.whole("seed"));
  const int64_t n = settings.whole("run.envs");
  auto group = open_environments(settings, n, 0, seed);
  const dreamer::AgentConfig config =
      agent_config(settings, group->observations(), group->actions());
  auto actor =
      std::make_unique<Actor>(device.client, config, device.model, n, seed, device.program);
  actor->set(read_acting_parameters(device.client, config, agent_file(from)));
  Driver driver(std::move(group), std::move(actor), nullptr, 0, seed);
  io::write_file(folder / kSettingsFile, settings.yaml());
  const int64_t steps = settings.whole("run.steps");
  RunLogs logs(folder, 0, /*with_metrics=*/true, /*with_tensorboard=*/false);
  job.begin();
  job.tell(observer.on_start, TrainStart{.run_folder = folder.string(),
                                         .task = settings.text("task"),
                                         .environments = n,
                                         .steps = steps,
                                         .replay = "no replay: the agent of " + from + " plays"});
  const Stopwatch watch;
  Means means;
  TrainResult out{.run_folder = folder.string()};
  for (int64_t call = 0; out.step < steps && !job.stop_requested(); ++call) {
    const std::vector<Episode> episodes = driver.step(call);
    out.step += n;
    for (const Episode& episode : episodes) {
      ++out.episodes;
      means.add("score", episode.score);
      logs.episode(out.step * driver.repeat(), episode);
    }
  }
  out.stopped = out.step < steps;
  out.score = means.mean("score");
  out.seconds = watch.seconds();
  logs.write(out.step * driver.repeat(), means.take("eval/"));
  return out;
}

}  // namespace

TrainResult train(const Settings& settings, const TrainObserver& observer,
                  const JobOptions& options) {
  const Job job(observer, options);
  const std::string& script = settings.text("script");
  check(script == "train" || script == "train_eval" || script == "eval_only",
        "[settings] `script` is {} but must be train, train_eval or eval_only\n  acting overlaps "
        "training in one process; run.env_addr names environments of other hosts",
        script);
  job.notice(settings.notices());
  if (script == "eval_only") {
    return evaluate_only(settings, observer, job);
  }
  const std::filesystem::path folder = run_folder(settings);
  checkpoints::RunLock lock(folder);
  TrainRun run(settings, observer, job, folder);
  const TrainStart start = run.start();
  io::write_file(folder / kSettingsFile, settings.yaml());
  job.begin();
  job.tell(observer.on_start, start);
  return run.run();
}

}  // namespace kinema::agents
