#include "kinema/agents/compiler_flags.h"

#include <fmt/format.h>

#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/flags/effective.h"
#include "kinema/flags/profile.h"

namespace kinema::agents {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A platform's profile, and the key that turns it off.
struct OwnProfile {
  flags::Backend backend;
  const char* name;
  const char* key;
};
constexpr OwnProfile kProfiles[] = {{flags::Backend::GPU, "dreamerv3-gpu", "jax.gpuflags"},
                                    {flags::Backend::TPU, "dreamerv3-tpu", "jax.tpuflags"}};

}  // namespace

CompilerFlags compiler_flags(const Settings& settings, const flags::Platform& platform,
                             std::span<const std::string> words) {
  CompilerFlags out;
  flags::Request request{.platform = platform,
                         .libtpu_init_args = variable("LIBTPU_INIT_ARGS"),
                         .xla_flags = variable("XLA_FLAGS"),
                         .own = {},
                         .given = {},
                         .allow = {},
                         .probe = {}};
  std::string remedy;
  for (const OwnProfile& own : kProfiles) {
    if (own.backend != platform.backend || !settings.flag(own.key)) {
      continue;
    }
    request.given = flags::given_flags(flags::find_profile(own.name));
    out.line = fmt::format("compiler flags: the {} of profile {}; {}=false leaves them out",
                           request.given.size(), own.name, own.key);
    remedy = fmt::format("; {}=false leaves out those of {}", own.key, own.name);
  }
  if (settings.flag("jax.debug") && platform.backend != flags::Backend::TPU) {
    request.given.push_back(
        {.name = "xla_backend_optimization_level", .value = "0", .origin = "jax.debug"});
  }
  for (const std::string& word : words) {
    request.given.push_back(flags::given_flag(word));
  }
  const flags::Effective effective = flags::resolve(request);
  if (const std::vector<flags::Finding> errors = effective.errors(); !errors.empty()) {
    const flags::Finding& first = errors.front();
    fail("[flags] {} (rule {})\n  {}{}", first.what, first.id, first.remedy, remedy);
  }
  for (const flags::Finding& finding : effective.findings) {
    if (finding.severity == flags::Severity::WARNING) {
      out.warnings.push_back("flags: " + flags::to_text(finding));
    }
  }
  out.options = effective.options();
  return out;
}

}  // namespace kinema::agents
