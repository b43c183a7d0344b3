#include "kinema/agents/train.h"

#include <algorithm>

#include "kinema/agents/run_parts.h"
#include "kinema/agents/train_run.h"
#include "kinema/checkpoints/run_lock.h"
#include "kinema/core/error.h"
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

TrainResult train(const Settings& settings, const TrainObserver& observer,
                  const JobOptions& options) {
  const Job job(observer, options);
  const std::string& script = settings.text("script");
  check(script == "train",
        "[settings] `script` is {} but must be train\n  `kinema agent eval RUN` evaluates", script);
  job.notice(settings.notices());
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
