#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/flags/effective.h"
#include "kinema/pjrt/compile_options.h"
#include "kinema/planning/target.h"

namespace kinema::cli {

/// What flags are resolved for, beside the configuration.
struct FlagsFor {
  /// Empty: the configuration's hardware on this machine.
  std::string target;
  /// `NAME=VALUE` words that win over the configuration.
  std::vector<std::string> words;
  /// Ask the plugin about what the table does not have.
  bool probe = false;
};

/// The platform of a target of which only the chip counts: `v6e:4x4`, `h100`, `cpu`; `gpu` is any
/// NVIDIA GPU. Throws an Error that names the chips that can be planned for.
flags::Platform platform_of(const std::string& target);

/// The compiler flags of a configuration's programs, from the plugin's defaults, the environment,
/// its profile and `xla_flags`. Nothing is loaded into this process. Throws an Error for a profile
/// or a rule that does not exist, and for `xla_flags` that is no `{NAME: VALUE}`.
flags::Effective resolve_flags(const config::Loaded& loaded, const FlagsFor& what);

/// resolve_flags with the plugin's help, as every command does it before it loads a plugin: prints
/// warnings and what was allowed, and throws an Error that names the first thing that is wrong.
flags::Effective check_flags(const config::Loaded& loaded, FlagsFor what = {});

/// The configuration's optimization level and effort, as far as they are no flags: a level is one
/// of the CPU's and GPU's code generator.
void set_effort(const config::Config& config, bool tpu, pjrt::CompileOptions& options);

/// ` [allowed: RULE, ...]`, or nothing where no error was let pass.
std::string allowed_text(const flags::Effective& effective);

/// The plugin for a platform: the configuration's, or the one that is installed; empty when there
/// is none.
std::string plugin_of(const config::Config& config, const flags::Platform& platform);

}  // namespace kinema::cli
