#include "kinema/jobs/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/pjrt/plugin.h"
#include "kinema/planning/install.h"
#include "kinema/resolve/device.h"
#include "kinema/runtime/cuda_libraries.h"
#include "kinema/runtime/environment.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// The vector extensions of this CPU that affect speed, from /proc/cpuinfo.
std::string cpu_features() {
  std::ifstream in("/proc/cpuinfo");
  std::string found;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("flags")) {
      continue;
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == "avx2" || word == "fma" || word == "avx512f" || word == "avx512_bf16" ||
          word == "avx512_vnni" || word == "amx_bf16") {
        found += (found.empty() ? "" : " ") + word;
      }
    }
    break;
  }
  return found;
}

std::string describe_cache(const std::string& folder) {
  if (const std::string why = io::write_problem(folder); !why.empty()) {
    return fmt::format("{} (cannot be written: {})", folder, why);
  }
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return error ? folder
               : fmt::format("{} ({:.1f} GB free)", folder,
                             static_cast<double>(space.available) / 1e9);
}

using Line = Diagnosis::Line;

/// The plugin of an installation, and the parts that are not downloaded yet.
Line installation_line(const planning::Installation& installation, const std::string& plugin) {
  const size_t missing = planning::missing_wheels(installation, runtime::cache_folder()).size();
  const std::string fetch = fmt::format("kinema doctor --install {}", installation.hardware);
  return {installation.hardware + " plugin",
          plugin.empty() ? fmt::format("none ({})", fetch)
          : missing == 0 ? plugin
                         : fmt::format("{} ({} of {} wheels are missing: {})", plugin, missing,
                                       installation.wheels.size(), fetch)};
}

/// The folders where the CUDA plugin finds its libraries, and those that planning and running would
/// miss.
void describe_cuda(const std::string& plugin, std::vector<Line>& lines) {
  std::string plan_misses;
  std::string run_misses;
  const auto miss = [](std::string& all, std::string_view name) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
  };
  const runtime::CudaDriver driver = runtime::find_cuda_driver();
  lines.push_back(
      {"  driver", fmt::format("{}{}", driver.path.string(),
                               driver.problem.empty() ? fmt::format(" (CUDA {}, {} GPUs)",
                                                                    driver.version, driver.devices)
                               : driver.path.empty()  ? driver.problem
                                                      : ": " + driver.problem)});
  if (!driver.problem.empty()) {
    miss(run_misses, driver.path.empty() ? "the driver (580 or later)" : "a GPU for its driver");
  }
  for (const auto& [part, path] : runtime::find_cuda_parts(plugin)) {
    lines.push_back({fmt::format("  {}", part.name),
                     path.empty()
                         ? fmt::format("none: {} was not found ({})", part.file, part.purpose)
                         : path.string()});
    if (path.empty()) {
      miss(run_misses, part.name);
      if (part.to_plan) {
        miss(plan_misses, part.name);
      }
    }
  }
  const auto verdict = [](const std::string& misses) {
    return misses.empty() ? "nothing is missing" : "missing: " + misses;
  };
  lines.push_back({"  to plan", verdict(plan_misses)});
  lines.push_back({"  to run", verdict(run_misses)});
}

std::vector<Line> describe(const runtime::Environment& found) {
  std::vector<Line> lines = {
      {"kinema", KINEMA_VERSION},
      {"cpu", fmt::format("{} ({} cores; {})", found.cpu_model, found.cpu_cores, cpu_features())},
      {"memory", fmt::format("{:.1f} GB", static_cast<double>(found.memory_bytes) / 1e9)},
      {"cache", describe_cache(found.cache_folder)},
      {"plugin", found.plugin_path.empty() ? "none" : found.plugin_path},
  };
  for (const planning::Installation& installation : planning::installations()) {
    const std::string plugin = runtime::installed_plugin(installation.hardware);
    lines.push_back(installation_line(installation, plugin));
    if (installation.hardware == "cuda" && !plugin.empty()) {
      describe_cuda(plugin, lines);
    }
  }
  if (found.problem.empty()) {
    lines.push_back({"PJRT", found.pjrt_version});
    lines.push_back({"StableHLO", found.stablehlo_version});
    const bool is_same = found.platform_name == found.platform_version;
    lines.push_back(
        {"platform", is_same ? found.platform_name
                             : fmt::format("{} {}", found.platform_name, found.platform_version)});
    lines.push_back({"own kernels", found.has_ffi ? "yes (FFI)" : "no (the plugin has no FFI)"});
    lines.push_back({"devices", fmt::format("{}", found.devices.size())});
    for (const pjrt::DeviceDescription& device : found.devices) {
      lines.push_back({"", device.text});
    }
  }
  return lines;
}

Line processes_line(const runtime::ClientSpec& spec, const world::World& world) {
  if (!world.is_alone()) {
    return {"processes", fmt::format("{}; this is process {}", world.text(), world.rank())};
  }
  const world::Environment environment = world::own_environment();
  for (const char* const name : {"TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES"}) {
    if (spec.hardware != "tpu" && environment(name)) {
      return {"processes", fmt::format("{}; {} is set: hardware=tpu reads what it says of a pod",
                                       world.text(), name)};
    }
  }
  return {"processes", world.text()};
}

/// The first problem of all processes, by rank.
std::string first_problem(const world::World& world, const std::vector<std::string>& problems) {
  const auto found = std::ranges::find_if_not(problems, &std::string::empty);
  return found == problems.end()
             ? ""
             : fmt::format("[{}] {}", world.name_of(found - problems.begin()), *found);
}

/// The reason why the plugin cannot be loaded; empty if it can.
std::string plugin_problem(const runtime::ClientSpec& spec) {
  try {
    pjrt::Plugin::load(runtime::find_plugin(spec));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

Diagnosis diagnose(const resolve::Settings& config, const Job& job) {
  world::World& world = job.world();
  runtime::ClientSpec spec = resolve::client_spec(config);
  spec.world = job.shared_world();
  spec.on_wait = [&job](const std::string& line) { job.notice(line); };
  const bool meets = !world.is_alone();
  std::string problem;
  if (meets) {
    problem = first_problem(
        world, world.communicator().gather(plugin_problem(spec), {.what = "the look for plugins"}));
    if (!problem.empty()) {
      spec.world.reset();  // a process is missing: the others open only their own devices
    }
  }
  const runtime::Environment found = runtime::describe_environment(spec);
  check(!meets || !problem.empty() || found.problem.empty(), "{}", found.problem);
  Diagnosis out{.lines = describe(found), .problem = problem.empty() ? found.problem : problem};
  if (const std::string why = io::write_problem(found.cache_folder); !why.empty()) {
    out.warning = fmt::format(
        "the cache {} cannot be written ({}): each run recompiles its programs, and neither "
        "plugins nor models can be downloaded\n"
        "  set KINEMA_CACHE to a writable folder",
        found.cache_folder, why);
  }
  out.lines.insert(out.lines.begin() + 1, processes_line(spec, world));
  return out;
}

}  // namespace kinema::jobs
