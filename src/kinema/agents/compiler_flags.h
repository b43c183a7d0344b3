#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kinema/agents/settings.h"
#include "kinema/flags/platform.h"
#include "kinema/pjrt/compile_options.h"

namespace kinema::agents {

/// The compiler flags of an agent's programs, and what is to be said about them.
struct CompilerFlags {
  std::map<std::string, pjrt::FlagValue> options;
  std::string line;                   // the profile that applies; empty: none
  std::vector<std::string> warnings;  // of the guard
};

/// On GPUs the profile dreamerv3-gpu unless `jax.gpuflags` is false, on TPUs dreamerv3-tpu unless
/// `jax.tpuflags` is; then `jax.debug`, which compiles without optimizations; then `words`,
/// `NAME=VALUE`. The environment's flags are checked with them. Throws an Error for a combination
/// that the guard refuses.
CompilerFlags compiler_flags(const Settings& settings, const flags::Platform& platform,
                             std::span<const std::string> words = {});

}  // namespace kinema::agents
