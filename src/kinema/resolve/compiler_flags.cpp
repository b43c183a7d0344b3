#include "kinema/resolve/compiler_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "kinema/core/error.h"
#include "kinema/flags/fix.h"
#include "kinema/flags/guard.h"
#include "kinema/flags/profile.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/planning/compile_job.h"
#include "kinema/resolve/device.h"
#include "kinema/runtime/client.h"

namespace kinema::resolve {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

flags::Platform platform_here(const config::Config& config) {
  flags::Platform out;
  if (has_mock_devices(config)) {
    return out;
  }
  if (config.run.hardware == config::Hardware::TPU) {
    out.backend = flags::Backend::TPU;
    out.chip = flags::chip_of_accelerator(environment("TPU_ACCELERATOR_TYPE"));
  } else if (config.run.hardware == config::Hardware::GPU) {
    out.backend = flags::Backend::GPU;
  }
  return out;
}

std::string value_text(const io::Json& value, const std::string& name, const std::string& origin) {
  switch (value.kind()) {
    case io::Json::Kind::Bool:
      return value.as_bool() ? "true" : "false";
    case io::Json::Kind::Integer:
      return fmt::format("{}", value.as_int());
    case io::Json::Kind::Number:
      return fmt::format("{}", value.as_number());
    case io::Json::Kind::String:
      return value.as_string();
    default:
      fail("[flags] xla_flags.{} ({}) is {} but must be true, false, a number or a word", name,
           origin, value.describe());
  }
}

void add_config_flags(const config::Loaded& loaded, std::vector<flags::GivenFlag>& given) {
  const auto origin_of = [&](const std::string& key) {
    const auto found = loaded.origin.find(key);
    return found == loaded.origin.end() ? std::string("default") : found->second;
  };
  const io::Json tree = io::Json::parse(loaded.config.run.xla_flags.json, "xla_flags");
  check(tree.is_object() || tree.is_null(),
        "[flags] xla_flags ({}) must be a list of NAME: VALUE, e.g. "
        "{{xla_tpu_scoped_vmem_limit_kib: 65536}}",
        origin_of("xla_flags"));
  if (tree.is_null()) {
    return;
  }
  for (const auto& [name, value] : tree.members()) {
    const std::string own = origin_of("xla_flags." + name);
    const std::string origin = own == "default" ? origin_of("xla_flags") : own;
    given.push_back({.name = name, .value = value_text(value, name, origin), .origin = origin});
  }
}

/// Adds the flags that follow from keys such as `cpu_isa`.
void add_switches(const config::Config& config, flags::Backend backend,
                  std::vector<flags::GivenFlag>& given) {
  if (config.runtime.deterministic && backend == flags::Backend::GPU) {
    for (flags::GivenFlag flag : flags::given_flags(flags::find_profile("gpu-deterministic"))) {
      flag.origin = "deterministic";
      given.push_back(std::move(flag));
    }
  }
  if (config.runtime.optimization_level >= 0 && backend != flags::Backend::TPU) {
    given.push_back({.name = "xla_backend_optimization_level",
                     .value = fmt::format("{}", config.runtime.optimization_level),
                     .origin = "optimization_level"});
  }
  const std::optional<kernels::Isa> isa = kernels::isa_named(config.run.cpu_isa);
  if (isa.has_value() && backend == flags::Backend::CPU) {
    given.push_back(
        {.name = kernels::kIsaFlag, .value = kernels::xla_isa(*isa), .origin = "cpu_isa"});
  }
}

/// Flags that kinema's kernels need in programs for one device.
std::vector<flags::GivenFlag> flags_of_kernels(flags::Backend backend) {
  if (backend != flags::Backend::GPU) {
    return {};
  }
  std::vector<flags::GivenFlag> out;
  for (const auto& [name, value] :
       kernels::for_target({.platform = "cuda"}, {.use = false}).flags) {
    out.push_back({.name = name,
                   .value = std::get<bool>(value) ? "true" : "false",
                   .origin = "programs of one GPU"});
  }
  return out;
}

/// A program that every compiler accepts.
constexpr const char* kSmallProgram = R"(module @probe {
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
)";

/// The smallest target of a chip.
std::string small_target(const flags::Platform& platform) {
  const std::string& chip = platform.chip;
  switch (platform.backend) {
    case flags::Backend::TPU:
      if (chip.empty()) {
        return "v6e:2x2";
      }
      return chip + (chip == "v5e" || chip == "v6e" ? ":2x2" : ":2x2x1");
    case flags::Backend::GPU:
      return chip.empty() || chip == "gpu" ? "h100:1" : chip + ":1";
    default:
      return "cpu:1";
  }
}

/// Tests flags on a plugin in a child process.
flags::Probe make_probe(const flags::Platform& platform, const std::string& plugin,
                        const std::filesystem::path& program) {
  return [target = small_target(platform), plugin, program](const flags::ProbeRequest& request) {
    planning::CompileJob job{
        .target = planning::parse_target(target), .plugin = plugin, .program = kSmallProgram};
    job.options.flags = request.options;
    job.environment = {{"LIBTPU_INIT_ARGS", request.libtpu_init_args},
                       {"XLA_FLAGS", request.xla_flags}};
    try {
      planning::compile_in_child(job, program);
    } catch (const Error& error) {
      std::string said = error.what();
      if (said.find("lock file") != std::string::npos) {
        throw;  // the error is not about the flag
      }
      std::ranges::replace(said, '\n', ' ');
      return flags::parse_probe_answer(said);
    }
    return flags::ProbeAnswer{};
  };
}

}  // namespace

FlagLists FlagLists::of_environment() {
  return {.libtpu_init_args = environment("LIBTPU_INIT_ARGS"),
          .xla_flags = environment("XLA_FLAGS")};
}

flags::Platform platform_of(const std::string& target) {
  if (target == "gpu" || target.starts_with("gpu:")) {
    return {.backend = flags::Backend::GPU, .chip = "gpu"};
  }
  const planning::Chip& chip = planning::chip_of_target(target);
  const flags::Backend backend = chip.family == planning::Family::TPU    ? flags::Backend::TPU
                                 : chip.family == planning::Family::CUDA ? flags::Backend::GPU
                                                                         : flags::Backend::CPU;
  return {.backend = backend, .chip = chip.name};
}

std::string plugin_of(const config::Config& config, const flags::Platform& platform) {
  runtime::ClientSpec spec = client_spec(config);
  const bool other = (platform.backend == flags::Backend::TPU) != (spec.hardware == "tpu") ||
                     (platform.backend == flags::Backend::GPU) != (spec.hardware == "cuda");
  spec.hardware = platform.backend == flags::Backend::TPU   ? "tpu"
                  : platform.backend == flags::Backend::GPU ? "cuda"
                                                            : "cpu";
  if (other && config.run.pjrt_plugin.empty()) {
    return runtime::installed_plugin(spec.hardware);
  }
  try {
    return runtime::find_plugin(spec);
  } catch (const Error&) {
    return "";
  }
}

flags::Effective resolve_flags(const config::Loaded& loaded, const FlagRequest& what) {
  const config::Config& config = loaded.config;
  flags::Request request;
  request.platform = what.target.empty() ? platform_here(config) : platform_of(what.target);
  const std::string plugin = plugin_of(config, request.platform);
  request.platform.version = flags::plugin_version(plugin);
  const FlagLists lists = what.lists.value_or(FlagLists::of_environment());
  request.libtpu_init_args = lists.libtpu_init_args;
  request.xla_flags = lists.xla_flags;
  if (what.one_device || what.target.ends_with(":1")) {
    request.own = flags_of_kernels(request.platform.backend);
  }
  add_switches(config, request.platform.backend, request.given);
  if (!what.target.empty() || !has_mock_devices(config)) {
    if (!config.run.flags_profile.empty()) {
      const std::vector<flags::GivenFlag> profile =
          flags::given_flags(flags::find_profile(config.run.flags_profile));
      request.given.insert(request.given.end(), profile.begin(), profile.end());
    }
    add_config_flags(loaded, request.given);
  }
  for (const std::string& word : what.words) {
    request.given.push_back(flags::given_flag(word));
  }
  request.deterministic = config.runtime.deterministic;
  for (const std::string& id : config.run.allow_flags) {
    check(flags::is_rule(id),
          "[flags] allow_flags: there is no rule `{}`; docs/reference/flags.md has them", id);
  }
  request.allow = config.run.allow_flags;
  if (!what.program.empty() && !plugin.empty()) {
    request.probe = make_probe(request.platform, plugin, what.program);
  }
  return flags::resolve(request);
}

FlagLists fix_flags(const config::Loaded& loaded, const FlagRequest& what) {
  constexpr int kMostRounds = 8;
  FlagLists lists = what.lists.value_or(FlagLists::of_environment());
  // A flag that is parsed only after others are fixed may have another error.
  for (int round = 0; round < kMostRounds; ++round) {
    FlagRequest now = what;
    now.lists = lists;
    const flags::Effective effective = resolve_flags(loaded, now);
    const auto fixed = [&](const flags::EnvironmentFlags& list, std::string& text) {
      const bool changed =
          fmt::format("{}", fmt::join(list.words, " ")) != flags::fixed(list, effective);
      text = changed ? flags::fixed(list, effective) : text;
      return changed;
    };
    const bool tpu =
        !effective.errors().empty() &&
        fixed(flags::read_libtpu_init_args(lists.libtpu_init_args), lists.libtpu_init_args);
    const bool xla = !effective.errors().empty() &&
                     fixed(flags::read_xla_flags(lists.xla_flags), lists.xla_flags);
    if (!tpu && !xla) {
      break;  // no error is left, or the errors are in the configuration
    }
  }
  return lists;
}

flags::Effective check_flags(const config::Loaded& loaded, const Job& job, FlagRequest what) {
  what.program = job.program();
  flags::Effective effective = resolve_flags(loaded, what);
  const std::vector<flags::Finding> errors = effective.errors();
  if (!errors.empty()) {
    std::string more = errors.size() == 1
                           ? ""
                           : fmt::format("\n  and {} more: kinema flags check", errors.size() - 1);
    const flags::Finding& first = errors.front();
    fail("[flags] {} (rule {})\n  {}{}", first.what, first.id, first.remedy, more);
  }
  for (const flags::Finding& finding : effective.findings) {
    if (finding.allowed || finding.severity == flags::Severity::WARNING) {
      job.notice("flags: " + flags::to_text(finding));
    }
  }
  return effective;
}

std::map<std::string, pjrt::FlagValue> program_flags(const flags::Effective& effective) {
  std::map<std::string, pjrt::FlagValue> out = effective.options();
  for (const flags::GivenFlag& own : flags_of_kernels(effective.platform.backend)) {
    const auto found = effective.settings.find(own.name);
    if (found != effective.settings.end() && found->second.is_given()) {
      out.emplace(own.name, flags::is_on(found->second.top().value));
    }
  }
  return out;
}

void set_effort(const config::Config& config, bool tpu, pjrt::CompileOptions& options) {
  options.optimization_level = tpu ? config.runtime.optimization_level : -1;
  options.optimization_effort = config.runtime.optimization_effort;
}

std::string allowed_text(const flags::Effective& effective) {
  const std::vector<std::string> ids = effective.allowed();
  return ids.empty() ? "" : fmt::format("  [flags allowed: {}]", fmt::join(ids, ", "));
}

}  // namespace kinema::resolve
