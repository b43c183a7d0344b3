#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/data_config.h"
#include "kinema/config/field.h"
#include "kinema/config/generate_config.h"
#include "kinema/config/given.h"
#include "kinema/config/model_config.h"
#include "kinema/config/optimizer_config.h"
#include "kinema/config/parallel_config.h"
#include "kinema/config/run_config.h"
#include "kinema/config/runtime_config.h"

namespace kinema::config {

/// Every key of a run. In files and on the command line the keys are flat; the groups only keep
/// the declarations readable. A new key is a member and one `visit` line in its group.
struct Config {
  RunConfig run;
  RuntimeConfig runtime;
  ModelConfig model;
  OptimizerConfig optimizer;
  DataConfig data;
  GenerateConfig generate;
  ParallelConfig parallel;

  bool operator==(const Config&) const = default;

  /// Calls visit(key, value, OnResume, Field) for every key, group by group.
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    members(self, [&](std::string_view key, auto& member, OnResume on_resume, const Field& field) {
      visit(key, value_of(member), on_resume, field);
    });
  }

  /// The same with the members as they are: some are Given.
  template <typename Self, typename Visitor>
  static void members(Self& self, Visitor&& visit) {
    RunConfig::fields(self.run, visit);
    RuntimeConfig::fields(self.runtime, visit);
    ModelConfig::fields(self.model, visit);
    OptimizerConfig::fields(self.optimizer, visit);
    DataConfig::fields(self.data, visit);
    GenerateConfig::fields(self.generate, visit);
    ParallelConfig::fields(self.parallel, visit);
  }
};

/// The origin of a value that was given as key=value.
inline constexpr std::string_view kCommandLine = "command line";

/// A configuration and where each value came from.
struct Loaded {
  Config config;
  /// key -> `FILE:LINE`, `command line`, a variable's name, or the path of what a video or an image
  /// was made with; else default
  std::map<std::string, std::string> origin;
  std::vector<std::string> ignored;  ///< keys given that have no meaning here

  /// Whether somebody gave the key. What follows from that is Given in the Config.
  bool gives(const std::string& key) const { return origin.contains(key); }
};

/// Reads `file` (and the files its `base:` key names, nearest last; what stands below `defaults:`
/// in one takes the place of defaults and does not count as given) over the defaults, then the
/// variables of `environment` (`NAME=VALUE`; those that begin with KINEMA_KEY_ set keys, as
/// KINEMA_KEY_MAX_TRAIN_STEPS=10 does, the others are left alone), then the `key=value` overrides.
/// Throws Error on an unknown key (naming the nearest known one), a value of wrong type or out of
/// range (naming key, value, place and what was expected), a broken file.
Loaded load(const std::filesystem::path& file, std::span<const std::string> overrides = {},
            std::span<const std::string> environment = {});

/// The defaults with variables and overrides only, for commands that need no file.
Loaded load_defaults(std::span<const std::string> overrides = {},
                     std::span<const std::string> environment = {});

/// Gives a key a value, as `key=value` on the command line does; errors as there, which name
/// `origin`.
void set(Loaded& loaded, const std::string& key, const std::string& value,
         const std::string& origin = std::string(kCommandLine));

/// Whether the key was given on the command line, and in no file or variable alone.
bool on_command_line(const Loaded& loaded, const std::string& key);

/// What is the run's own: keys of this start (Of) have their defaults, and nobody gave them.
Loaded of_run(Loaded loaded);

/// How to_yaml begins.
inline constexpr std::string_view kYamlHeader = "# Every key, read back to the same values";

/// The whole configuration as YAML that `load` reads back to an equal one, in which the same keys
/// count as given: those stand first, each with its origin as a comment, the others below
/// `defaults:`.
std::string to_yaml(const Loaded& loaded);

/// What `command` ("train", "generate" or "prepare") has to say before it begins: at most one line
/// on keys without meaning here, one on keys that are not built yet, for train one on keys that
/// were given and do nothing beside the others. Throws Error where such a key
/// would change the command's result, and where the values do not fit each other.
std::vector<std::string> notices(const Loaded& loaded, std::string_view command);

/// The line on keys that were given and do nothing with a model that lacks so much; none where
/// there are no such keys. Those that notices() names are left out.
std::vector<std::string> notices_of_model(const Loaded& loaded, std::string_view command,
                                          const Lacks& lacks);

/// Where checkpoints of the run in `run` lie: checkpoint_dir, or in the run folder.
std::filesystem::path checkpoints_folder(const Config& config, const std::filesystem::path& run);

/// OUTPUT_DIR/RUN_NAME. Throws Error when run_name is empty or leaves output_dir.
std::filesystem::path run_folder(const Config& config);

/// Samples per optimizer step.
struct BatchSizes {
  int64_t load;   ///< read from the data, per batch
  int64_t train;  ///< of these, used
};

/// per_device_batch_size (may be fractional) or global_batch_size on `devices` devices. Throws
/// Error when the product is no whole number. Whether a mesh can split it is mesh::check_batch's.
BatchSizes batch_sizes(const Config& config, int64_t devices);

/// learning_rate_schedule_steps, or max_train_steps where that is -1.
int64_t schedule_steps(const Config& config);

/// The share of the schedule, at its end, over which the learning rate falls: lr_decay_fraction, or
/// where that is -1 what lr_schedule says. Negative: all steps behind the warmup.
double decay_fraction(const OptimizerConfig& optimizer);

}  // namespace kinema::config
