#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/processes.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/jobs/diagnose.h"
#include "kinema/planning/install.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/runtime/client.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

int install(const std::string& hardware) {
  const fs::path folder = planning::install(planning::installation_for(hardware),
                                            runtime::cache_folder(), [](const std::string& line) {
                                              fmt::print("{}\n", line);
                                              std::fflush(stdout);
                                            });
  fmt::print("{} plugin: {}\n", hardware, folder.string());
  return 0;
}

int diagnose(const std::vector<std::string>& words, bool json) {
  joined_world("doctor", words);  // first, so that errors in the arguments are reported once
  const config::Loaded loaded = load_arguments(words, /*need_file=*/false);
  const std::shared_ptr<world::World> world = joined_world(loaded.config);
  const Job job = console_job(world);
  resolve::check_flags(loaded, job);
  const jobs::Diagnosis found = jobs::diagnose(loaded, job);
  if (json) {
    io::Json report = io::Json::object();
    for (const auto& line : found.lines) {
      if (!line.name.empty()) {
        report.set(line.name.substr(line.name.find_first_not_of(' ')), line.text);
      }
    }
    report.set("problem", found.problem)
        .set("warning", found.warning)
        .set("ok", found.problem.empty());
    fmt::print("{}\n", report.dump());
  } else {
    for (const auto& line : found.lines) {
      fmt::print("{:<12} {}\n", line.name, line.text);
    }
    if (!found.warning.empty()) {
      fmt::print("{}\n", found.warning);
    }
    if (!found.problem.empty() || found.warning.empty()) {
      fmt::print("{}\n", found.problem.empty() ? "nothing is missing" : found.problem);
    }
  }
  return found.problem.empty() ? 0 : 1;
}

}  // namespace

void add_doctor(Program& program) {
  Command command = program.add(
      "doctor", "Print plugin, devices and machine, with missing parts and how to install them");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command.option("CONFIG key=value", *words, "hardware, pjrt_plugin, cpu_device_count, ...");
  command.flag("--json", *json, "print JSON");
  const auto wanted = std::make_shared<std::string>();
  command.option("--install", *wanted,
                 "download the plugin for tpu or cuda, and the libraries it loads, with pip into "
                 "the cache folder");
  command.run([words, json, wanted] {
    return wanted->empty() ? diagnose(*words, *json) : install(*wanted);
  });
}

}  // namespace kinema::cli
