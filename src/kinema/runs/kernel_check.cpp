#include "kinema/runs/kernel_check.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/planning/compile_job.h"
#include "kinema/planning/compiler_error.h"
#include "kinema/runs/attention_notices.h"
#include "kinema/runs/device.h"
#include "kinema/runtime/executable_cache.h"
#include "kinema/verification/kernels.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// What was found out before: empty text for kernels that agree, else why they do not.
std::optional<std::string> remembered(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    return std::nullopt;
  }
  try {
    return io::Json::read(file).at("problem").as_string();
  } catch (const Error&) {  // torn, or of another version: found out again
    return std::nullopt;
  }
}

void remember(const fs::path& file, const std::string& problem) {
  try {
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    io::write_file(file, io::Json::object().set("problem", problem).dump());
  } catch (const Error&) {
  }
}

/// The smallest target whose devices are the client's; empty for one without plans.
std::string small_target(const pjrt::Client& client) {
  if (client.platform_name() == "cpu") {
    return "cpu:1";
  }
  const std::string kind = client.devices().front().description().kind;
  // Plugins show a chip of v4 as one device or two, which is all the same to a kernel.
  const std::string chip = kind == "TPU v4" ? "v4" : std::string(planning::chip_of_kind(kind));
  if (chip.empty()) {
    return "";
  }
  const planning::Chip& known = planning::chip_of_target(chip);
  return chip + (known.family == planning::Family::CUDA ? ":1"
                 : known.grid_axes == 2                 ? ":2x2"
                                                        : ":2x2x1");
}

/// What a process of its own made of a program.
struct Tried {
  std::string problem;  // empty: none
  bool lasting = true;  // true again for the same program
};

Tried compile_elsewhere(const pjrt::Client& client, const std::string& program,
                        const pjrt::CompileOptions& options, const Job& job) {
  const std::string target = small_target(client);
  if (job.program().empty() || target.empty()) {
    return {.lasting = false};
  }
  const auto task = job.task("compiling attention kernels");
  planning::CompileJob compile{.target = planning::parse_target(target),
                               .plugin = client.plugin().path(),
                               .program = program,
                               .options = options,
                               .kernels = true};
  try {
    planning::compile_in_child(compile, job.program(), job.stop());
  } catch (const Stopped&) {
    throw;
  } catch (const planning::NotAsked&) {
    return {.lasting = false};
  } catch (const Error& error) {
    const std::string said = error.what();
    // A machine that is short of memory kills; another time it may not.
    return {.problem = said.substr(0, said.find('\n')),
            .lasting = said.find("signal 9 ") == std::string::npos};
  }
  return {};
}

fs::path kernels_folder() { return fs::path(runtime::cache_folder()) / "kernels"; }

std::string problem_of_numbers(const pjrt::Client& client, const runtime::ProgramOptions& options,
                               const Job& job) {
  const auto task = job.task("checking attention kernels", verification::kernel_case_count());
  int64_t done = 0;
  std::string problem;
  verification::verify_kernels(client, options, [&](const std::vector<verification::Row>& rows) {
    job.check_stop();
    for (const verification::Row& row : rows) {
      if (!row.ok && !row.unsupported && problem.empty()) {
        problem = row.compared ? fmt::format("{}: {} is off by {:.3g}, at most {:.3g} was expected",
                                             row.name, row.tensor, row.max_diff, row.limit)
                               : fmt::format("{}: {}", row.name, row.message);
      }
    }
    task->update(++done);
  });
  return problem;
}

}  // namespace

std::string problem_of_kernels(const pjrt::Client& client, const std::string& program,
                               const pjrt::CompileOptions& options, const fs::path& folder,
                               const Job& job) {
  const std::string key = runtime::ExecutableCache::key(client, program, options.serialize());
  const fs::path file = folder / ("compiled-" + key + ".json");
  if (const std::optional<std::string> known = remembered(file)) {
    return *known;
  }
  const Tried tried = compile_elsewhere(client, program, options, job);
  if (tried.lasting) {
    remember(file, tried.problem);
  }
  return tried.problem;
}

runtime::ProgramOptions trying_kernels(runtime::ProgramOptions options, const pjrt::Client& client,
                                       const Job& job) {
  options.try_kernels = [client, compile = options.compile, job](const std::string& program) {
    const std::string problem = problem_of_kernels(client, program, compile, kernels_folder(), job);
    if (!problem.empty()) {
      job.notice("attention runs without kernels, which do not compile: " + problem);
    }
    return problem.empty();
  };
  return options;
}

runtime::ProgramOptions demanding_kernels(runtime::ProgramOptions options,
                                          const pjrt::Client& client, const Job& job) {
  options.try_kernels = [client, compile = options.compile, job](const std::string& program) {
    const std::string problem = problem_of_kernels(client, program, compile, kernels_folder(), job);
    check(problem.empty(), "{}", problem);
    return true;
  };
  return options;
}

bool kernels_agree(const pjrt::Client& client, const runtime::ProgramOptions& given,
                   const fs::path& folder, const Job& job) {
  runtime::ProgramOptions options = given;
  options.saved.clear();
  options.dump.clear();
  options.emit = {};
  options.try_kernels = {};
  const std::string program = verification::kernel_program(client, options);
  if (program.empty()) {
    return true;
  }
  const fs::path file =
      folder /
      (runtime::ExecutableCache::key(client, program, options.compile.serialize()) + ".json");
  std::optional<std::string> problem = remembered(file);
  if (!problem) {
    const Tried tried = compile_elsewhere(client, program, options.compile, job);
    problem = tried.problem.empty() ? problem_of_numbers(client, options, job) : tried.problem;
    if (tried.problem.empty() || tried.lasting) {
      remember(file, *problem);
    }
  }
  if (!problem->empty()) {
    job.notice(
        fmt::format("attention runs without kernels, which do not agree on this device: {}; "
                    "`kinema verify --kernels` shows all",
                    *problem));
  }
  return problem->empty();
}

void check_kernels(config::Config& config, const pjrt::Client& client, const Job& job) {
  const std::string platform = client.platform_name();
  job.notice(attention_notices(
      config, platform == "tpu" ? client.devices().front().description().kind : ""));
  if (platform == "cpu" || !config.model.attention_kernels) {
    return;
  }
  config.model.attention_kernels =
      kernels_agree(client, program_options(config), kernels_folder(), job);
}

}  // namespace kinema::runs
