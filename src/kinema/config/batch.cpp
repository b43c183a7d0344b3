#include <algorithm>
#include <cmath>
#include <string>

#include "kinema/config/config.h"
#include "kinema/core/error.h"

namespace kinema::config {

std::filesystem::path run_folder(const Config& config) {
  const std::string& name = config.run.run_name;
  check(!name.empty(), "[config] run_name is empty: give the run a name, e.g. run_name=first");
  const std::filesystem::path relative(name);
  check(!relative.is_absolute(), "[config] run_name `{}` is a path; set its folder with output_dir",
        name);
  for (const auto& part : relative) {
    check(part != "..", "[config] run_name `{}` leaves output_dir", name);
    check(part != ".", "[config] run_name `{}` is output_dir itself, or holds a `.`", name);
  }
  return std::filesystem::path(config.run.output_dir) / relative;
}

std::filesystem::path checkpoints_folder(const Config& config, const std::filesystem::path& run) {
  return config.run.checkpoint_dir.empty() ? run / "checkpoints"
                                           : std::filesystem::path(config.run.checkpoint_dir);
}

BatchSizes batch_sizes(const Config& config, int64_t devices) {
  const double per_device = config.optimizer.per_device_batch_size;
  const int64_t global = config.optimizer.global_batch_size;
  if (global > 0) {
    return {.load = std::max(global, devices), .train = global};
  }
  const double samples = static_cast<double>(devices) * per_device;
  const auto train = static_cast<int64_t>(std::round(samples));
  // Rounds a product of a decimal fraction: 3 x 0.3333333 means 1.
  check(train > 0 && std::abs(samples - static_cast<double>(train)) < 1e-6 * samples,
        "[config] per_device_batch_size {} on {} device{} is {} samples, which is not a whole "
        "number\n"
        "  set global_batch_size={}, or per_device_batch_size to {}",
        per_device, devices, devices == 1 ? "" : "s", samples, std::max<int64_t>(train, 1),
        devices == 1 ? "a whole number" : fmt::format("a multiple of 1/{}", devices));
  // As in MaxDiffusion: a fraction loads one sample per device and trains on the first ones.
  return {.load = std::max(train, devices), .train = train};
}

int64_t schedule_steps(const Config& config) {
  const int64_t steps = config.optimizer.learning_rate_schedule_steps;
  return steps < 0 ? config.optimizer.max_train_steps : steps;
}

double decay_fraction(const OptimizerConfig& optimizer) {
  constexpr double kOfWsd = 0.1;  // arXiv:2404.06395: decaying over 10% of the steps is enough
  if (optimizer.lr_decay_fraction >= 0) {
    return optimizer.lr_decay_fraction;
  }
  return optimizer.lr_schedule == LrSchedule::CONSTANT ? 0
         : optimizer.lr_schedule == LrSchedule::WSD    ? kOfWsd
                                                       : -1;
}

}  // namespace kinema::config
