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
#include "kinema/config/serve_config.h"

namespace kinema::config {

/// All keys of a run. In files and on the command line the keys are flat; the groups only structure
/// the declarations. A new key is a member and one `visit` line in its group.
struct Config {
  RunConfig run;
  RuntimeConfig runtime;
  ModelConfig model;
  OptimizerConfig optimizer;
  DataConfig data;
  GenerateConfig generate;
  ParallelConfig parallel;
  ServeConfig serve;

  bool operator==(const Config&) const = default;

  /// Calls visit(key, value, OnResume, Field) for every key, group by group.
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    members(self, [&](std::string_view key, auto& member, OnResume on_resume, const Field& field) {
      visit(key, value_of(member), on_resume, field);
    });
  }

  /// The same with the members themselves: some are Given.
  template <typename Self, typename Visitor>
  static void members(Self& self, Visitor&& visit) {
    RunConfig::fields(self.run, visit);
    RuntimeConfig::fields(self.runtime, visit);
    ModelConfig::fields(self.model, visit);
    OptimizerConfig::fields(self.optimizer, visit);
    DataConfig::fields(self.data, visit);
    GenerateConfig::fields(self.generate, visit);
    ParallelConfig::fields(self.parallel, visit);
    ServeConfig::fields(self.serve, visit);
  }
};

/// The origin of a value that was given as key=value.
inline constexpr std::string_view kCommandLine = "command line";

/// A configuration with the origin of each value.
struct Loaded {
  Config config;
  /// key -> `FILE:LINE`, `command line`, a variable's name, or the path of the video or image with
  /// this setting; no entry: default
  std::map<std::string, std::string> origin;
  std::vector<std::string> ignored;  ///< given keys that have no meaning in kinema

  /// True if the key was given. Keys whose effect depends on it are Given in the Config.
  bool is_set(const std::string& key) const { return origin.contains(key); }
};

/// Reads `file` over the defaults, with the files of its `base:` key first; then `environment`
/// (`NAME=VALUE`; KINEMA_KEY_MAX_TRAIN_STEPS=10 sets max_train_steps, other variables are ignored);
/// then the `key=value` overrides. Keys below `defaults:` in a file replace defaults and do not
/// count as given. Throws an Error for an unknown key (with the most similar one), a value of wrong
/// type or out of range (with key, value, file and line, and the expected values), and an invalid
/// file.
Loaded load(const std::filesystem::path& file, std::span<const std::string> overrides = {},
            std::span<const std::string> environment = {});

/// The defaults with variables and overrides, for commands without a file.
Loaded load_defaults(std::span<const std::string> overrides = {},
                     std::span<const std::string> environment = {});

/// Sets a key like `key=value` on the command line, with the same errors, which name `origin`.
void set(Loaded& loaded, const std::string& key, const std::string& value,
         const std::string& origin = std::string(kCommandLine));

/// True if the key was given on the command line.
bool on_command_line(const Loaded& loaded, const std::string& key);

/// The run's own configuration: keys of this start only (Of) are reset to their defaults.
Loaded of_run(Loaded loaded);

/// The first line of to_yaml.
inline constexpr std::string_view kYamlHeader = "# Every key, read back to the same values";

/// The whole configuration as YAML from which `load` returns an equal one, with the same given
/// keys: these are first, with their origins as comments, the others are below `defaults:`.
std::string to_yaml(const Loaded& loaded);

/// Log lines of `command` ("train", "generate" or "prepare") before it starts: at most one about
/// keys without meaning in kinema, one about keys that are not built yet, and for train one about
/// given keys without effect. Throws an Error if such a key would change the command's result, and
/// if values contradict each other.
std::vector<std::string> notices(const Loaded& loaded, std::string_view command);

/// The log line about given keys that have no effect because the model lacks a feature; empty
/// without such keys. Keys in notices() are not repeated.
std::vector<std::string> model_notices(const Loaded& loaded, std::string_view command,
                                       const MissingFeatures& lacks);

/// The checkpoints folder of the run in `run`: checkpoint_dir, or in the run folder.
std::filesystem::path checkpoints_folder(const Config& config, const std::filesystem::path& run);

/// OUTPUT_DIR/RUN_NAME. Throws an Error if run_name is empty or leaves output_dir.
std::filesystem::path run_folder(const Config& config);

/// Samples per optimizer step.
struct BatchSizes {
  int64_t load;   ///< samples that a batch reads
  int64_t train;  ///< of these, trained on
};

/// From per_device_batch_size (a fraction is allowed) or global_batch_size on `devices` devices.
/// Throws an Error if the product is not a whole number. mesh::check_batch checks the sharding.
BatchSizes batch_sizes(const Config& config, int64_t devices);

/// learning_rate_schedule_steps; max_train_steps if it is -1.
int64_t schedule_steps(const Config& config);

/// The decay's share of the schedule: lr_decay_fraction, or if it is -1 that of lr_schedule.
/// Negative: all steps after the warmup.
double decay_fraction(const OptimizerConfig& optimizer);

}  // namespace kinema::config
