#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/flags/effective.h"
#include "kinema/job/job.h"
#include "kinema/pjrt/compile_options.h"
#include "kinema/planning/target.h"

namespace kinema::resolve {

/// Lists of flags as the variables of the environment hold them.
struct FlagLists {
  std::string libtpu_init_args;
  std::string xla_flags;

  static FlagLists of_environment();
};

/// What flags are resolved for, beside the configuration.
struct FlagsFor {
  /// Empty: the configuration's hardware on this machine.
  std::string target;
  /// Programs are for one device; said by a target that ends with `:1` too. False: not known.
  bool one_device = false;
  /// `NAME=VALUE` words that win over the configuration.
  std::vector<std::string> words;
  /// A kinema program, by which the plugin is asked about what the table does not have; empty: it
  /// is not.
  std::filesystem::path program;
  /// In place of the environment's.
  std::optional<FlagLists> lists = {};
};

/// The platform of a target of which only the chip counts: `v6e:4x4`, `h100`, `cpu`; `gpu` is any
/// NVIDIA GPU. Throws an Error that names the chips that can be planned for.
flags::Platform platform_of(const std::string& target);

/// The compiler flags of a configuration's programs, from the plugin's defaults, the environment,
/// its profile and `xla_flags`. Nothing is loaded into this process. Throws an Error for a profile
/// or a rule that does not exist, and for `xla_flags` that is no `{NAME: VALUE}`.
flags::Effective resolve_flags(const config::Loaded& loaded, const FlagsFor& what);

/// The lists as the remedies of what is wrong with them have it.
FlagLists fix_flags(const config::Loaded& loaded, const FlagsFor& what);

/// resolve_flags with the plugin's help, as every job does it before it loads a plugin: tells
/// warnings and what was allowed, and throws an Error that names the first thing that is wrong.
flags::Effective check_flags(const config::Loaded& loaded, const Job& job, FlagsFor what = {});

/// Effective::options, and what the environment says of flags that our kernels would set: a
/// program's options win over the environment's.
std::map<std::string, pjrt::FlagValue> options_for_programs(const flags::Effective& effective);

/// The configuration's optimization level and effort, as far as they are no flags: a level is one
/// of the CPU's and GPU's code generator.
void set_effort(const config::Config& config, bool tpu, pjrt::CompileOptions& options);

/// ` [allowed: RULE, ...]`, or nothing where no error was let pass.
std::string allowed_text(const flags::Effective& effective);

/// The plugin for a platform: the configuration's, or the one that is installed; empty when there
/// is none.
std::string plugin_of(const config::Config& config, const flags::Platform& platform);

}  // namespace kinema::resolve
