#include "kinema/resolve/open_run.h"

#include <fmt/format.h>

#include "kinema/config/keys.h"
#include "kinema/config/resume.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/model_source/continued_run.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/stored_paths.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// True if a run has no step left. Runs that are limited by epochs are checked when their data is
/// open.
bool is_done(const config::Config& config, const Start& start) {
  const int64_t last = config.optimizer.max_train_steps;
  return start.resumes() && last > 0 && start.saved.step >= last;
}

/// Keys on the command line that differ from the run's. A finished run derives nothing, so keys of
/// files, which may mean derived values, are not compared.
std::vector<std::string> without_effect(const config::Loaded& loaded, const Start& start) {
  config::Record given = config::record_of(loaded.config);
  for (const std::string& key : model_source::model_keys()) {
    given.erase(key);  // other_models reports these, as they were named
  }
  std::erase_if(given, [&](const auto& each) {
    return each.first == "max_train_steps" || !on_command_line(loaded, each.first);
  });
  std::vector<std::string> out;
  for (const std::string& change : config::changes(start.saved.settings, given)) {
    out.push_back("without effect, as no step is left: " + change);
  }
  return out;
}

}  // namespace

std::string nothing_to_do(int64_t made, int64_t max_steps) {
  return fmt::format("nothing to do: {} made, and max_train_steps is {}",
                     made == 1 ? "1 step is" : fmt::format("{} steps are", made), max_steps);
}

OpenRun::OpenRun(const Settings& named, const Job& job)
    : record_(config::of_run(named)),
      stores_(run_outputs(named), job),
      settings_(with_outputs(named, stores_.local())),
      folder_(config::run_folder(settings_)) {
  if (job.world().is_first()) {
    lock_.emplace(folder_);
    stores_.begin(config::to_yaml(record_));
  }
  stores_.bring_together();
  start_ = find_start(settings_, folder_, job);
  if (stores_.checkpoints() != nullptr) {
    stores_.checkpoints()->keep(checkpoint_keep(settings_, start_));
  }
}

fs::path run_checkpoints(const config::Config& config, const fs::path& run) {
  return config::checkpoints_folder(config, run);
}

fs::path OpenRun::checkpoints() const { return config::checkpoints_folder(settings_, folder_); }

std::string OpenRun::checkpoints_key() const {
  const config::Config& config = settings_;
  return config.run.checkpoint_dir.empty() ? "output_dir" : "checkpoint_dir";
}

std::optional<std::vector<std::string>> OpenRun::nothing_left() const {
  const config::Config& config = settings_;
  if (!is_done(config, start_)) {
    return std::nullopt;
  }
  const int64_t max_steps = config.optimizer.max_train_steps;
  check(start_.folder.parent_path() == config::checkpoints_folder(config, folder_),
        "[train] the run of resume_from has made {} already, and max_train_steps is {}\n"
        "  a larger max_train_steps continues it",
        counted(start_.saved.step, "step"), max_steps);
  std::vector<std::string> out = model_source::other_models(record_, start_.folder);
  for (std::string& line : without_effect(settings_, start_)) {
    out.push_back(std::move(line));
  }
  out.push_back(nothing_to_do(start_.saved.step, max_steps));
  return out;
}

}  // namespace kinema::resolve
