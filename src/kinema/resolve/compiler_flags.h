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

/// Flags as in the environment variables LIBTPU_INIT_ARGS and XLA_FLAGS.
struct FlagLists {
  std::string libtpu_init_args;
  std::string xla_flags;

  static FlagLists of_environment();
};

/// The input of flag resolution, in addition to the configuration.
struct FlagRequest {
  /// Empty: the configuration's hardware on this machine.
  std::string target;
  /// True if programs are for one device; a target that ends with `:1` means the same. False:
  /// unknown.
  bool one_device = false;
  /// `NAME=VALUE` arguments that override the configuration.
  std::vector<std::string> words;
  /// A kinema executable that tests flags which are not in the table on the plugin; empty: no test.
  std::filesystem::path program;
  /// Used instead of the environment's.
  std::optional<FlagLists> lists = {};
};

/// The platform of a target (`v6e:4x4`, `h100`, `cpu`), of which only the chip is used; `gpu` is
/// any NVIDIA GPU. Throws an Error that names the chips that `plan` supports.
flags::Platform platform_of(const std::string& target);

/// The compiler flags of a configuration's programs, from the plugin's defaults, the environment,
/// the profile and `xla_flags`. Loads nothing into this process. Throws an Error for a profile or a
/// rule that does not exist, and for `xla_flags` that are not `{NAME: VALUE}`.
flags::Effective resolve_flags(const config::Loaded& loaded, const FlagRequest& what);

/// The environment's flags after the remedies of all errors are applied.
FlagLists fix_flags(const config::Loaded& loaded, const FlagRequest& what);

/// Resolves flags and tests unknown ones on the plugin; every job calls it before it loads a
/// plugin. Prints warnings and allowed errors, and throws an Error that names the first other
/// error.
flags::Effective check_flags(const config::Loaded& loaded, const Job& job, FlagRequest what = {});

/// Effective::options, and the environment's values of flags that kinema's kernels would set: a
/// program's options override the environment's.
std::map<std::string, pjrt::FlagValue> program_flags(const flags::Effective& effective);

/// Sets the configuration's optimization level and effort if they are not flags: a level applies to
/// the CPU's and GPU's code generator.
void set_effort(const config::Config& config, bool tpu, pjrt::CompileOptions& options);

/// ` [allowed: RULE, ...]`; empty if no error was allowed.
std::string allowed_text(const flags::Effective& effective);

/// The path of a platform's plugin: the configuration's, or the installed one; empty if there is
/// none.
std::string plugin_of(const config::Config& config, const flags::Platform& platform);

}  // namespace kinema::resolve
