#include "kinema/resolve/run_keys.h"

#include <algorithm>

#include "kinema/config/config.h"
#include "kinema/config/keys.h"

namespace kinema::resolve {

RunKeys read_run_keys(const std::filesystem::path& config_yml) {
  const config::Config config = config::load(config_yml).config;
  RunKeys out{.max_steps = std::max<int64_t>(0, config.optimizer.max_train_steps),
              .metrics = config.run.metrics_file,
              .checkpoints = config.run.checkpoint_dir};
  for (const config::KeyValue& each : config::describe(config)) {
    out.all.emplace_back(each.key, each.value);
  }
  return out;
}

}  // namespace kinema::resolve
