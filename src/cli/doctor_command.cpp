#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/commands.h"
#include "cli/compiler_flags.h"
#include "cli/device.h"
#include "io/json.h"
#include "plan/install.h"
#include "runtime/environment.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// The vector extensions of this CPU that matter to speed, from /proc/cpuinfo.
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

std::string writable(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::space_info space = fs::space(folder, error);
  if (error) {
    return "cannot be written: set KINEMA_CACHE to a folder that can";
  }
  return fmt::format("{:.1f} GB free", static_cast<double>(space.available) / 1e9);
}

struct Line {
  std::string name;
  std::string text;
};

std::vector<Line> describe(const runtime::Environment& found) {
  std::vector<Line> lines = {
      {"kinema", KINEMA_VERSION},
      {"cpu", fmt::format("{} ({} cores; {})", found.cpu_model, found.cpu_cores, cpu_features())},
      {"memory", fmt::format("{:.1f} GB", static_cast<double>(found.memory_bytes) / 1e9)},
      {"cache", fmt::format("{} ({})", found.cache_folder, writable(found.cache_folder))},
      {"plugin", found.plugin_path.empty() ? "none" : found.plugin_path},
  };
  for (const plan::PluginWheel& wheel : plan::plugin_wheels()) {
    const std::string path = runtime::installed_plugin(wheel.hardware);
    lines.push_back(
        {wheel.hardware + " plugin",
         path.empty() ? fmt::format("none (kinema doctor --install {})", wheel.hardware) : path});
  }
  if (found.problem.empty()) {
    lines.push_back({"PJRT", found.pjrt_version});
    lines.push_back({"StableHLO", found.stablehlo_version});
    lines.push_back(
        {"platform", fmt::format("{} {}", found.platform_name, found.platform_version)});
    lines.push_back({"own kernels", found.has_ffi ? "yes (FFI)" : "no (the plugin has no FFI)"});
    lines.push_back({"devices", fmt::format("{}", found.devices.size())});
    for (const pjrt::DeviceDescription& device : found.devices) {
      lines.push_back({"", device.text});
    }
  }
  return lines;
}

int install(const std::string& hardware) {
  const fs::path folder = plan::install_plugin(hardware, runtime::cache_folder());
  fmt::print("{} plugin: {}\n", hardware, folder.string());
  return 0;
}

int diagnose(const std::vector<std::string>& words, bool json) {
  const config::Loaded loaded = load_arguments(words, /*need_file=*/false);
  check_flags(loaded);
  const runtime::Environment found = runtime::describe_environment(client_spec(loaded.config));
  if (json) {
    io::Json report = io::Json::object();
    std::string last;
    for (const Line& line : describe(found)) {
      if (!line.name.empty()) {
        report.set(line.name, line.text);
      }
    }
    report.set("problem", found.problem).set("ok", found.problem.empty());
    fmt::print("{}\n", report.dump());
  } else {
    for (const Line& line : describe(found)) {
      fmt::print("{:<12} {}\n", line.name, line.text);
    }
    fmt::print("{}\n", found.problem.empty() ? "nothing is missing" : found.problem);
  }
  return found.problem.empty() ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Print plugin, devices and machine, what is missing and how to get it");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command->add_option("CONFIG key=value", *words, "hardware, pjrt_plugin, cpu_device_count, ...");
  command->add_flag("--json", *json, "print JSON");
  const auto wanted = std::make_shared<std::string>();
  command->add_option("--install", *wanted,
                      "fetch the plugin for tpu or cuda with pip, into the cache folder");
  command->callback([=, &action] {
    action = [words, json, wanted] {
      return wanted->empty() ? diagnose(*words, *json) : install(*wanted);
    };
  });
}

}  // namespace kinema::cli
