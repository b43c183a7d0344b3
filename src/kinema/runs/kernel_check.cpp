#include "kinema/runs/kernel_check.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/planning/compile_job.h"
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

/// The smallest target of the chip whose devices are called so; empty for one without plans.
std::string small_target(const std::string& kind) {
  const std::string chip(planning::chip_of_kind(kind));
  if (chip.empty()) {
    return "";
  }
  const planning::Chip& known = planning::chip_of_target(chip);
  return chip + (known.family == planning::Family::CUDA ? ":1"
                 : known.grid_axes == 2                 ? ":2x2"
                                                        : ":2x2x1");
}

/// Why a process of its own does not compile the kernels; empty where it does.
std::string problem_of_compiling(const pjrt::Client& client, const std::string& program,
                                 const runtime::ProgramOptions& options, const Job& job) {
  const std::string target = small_target(client.devices().front().description().kind);
  if (job.program().empty() || target.empty()) {
    return "";
  }
  planning::CompileJob compile{.target = planning::parse_target(target),
                               .plugin = client.plugin().path(),
                               .program = program,
                               .options = options.compile};
  try {
    planning::compile_in_child(compile, job.program(), job.stop());
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    const std::string said = error.what();
    return said.substr(0, said.find('\n'));
  }
  return "";
}

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

bool kernels_agree(const pjrt::Client& client, const runtime::ProgramOptions& given,
                   const fs::path& folder, const Job& job) {
  runtime::ProgramOptions options = given;
  options.saved.clear();
  options.dump.clear();
  options.emit = {};
  const std::string program = verification::kernel_program(client, options);
  if (program.empty()) {
    return true;
  }
  const fs::path file =
      folder /
      (runtime::ExecutableCache::key(client, program, options.compile.serialize()) + ".json");
  std::optional<std::string> problem = remembered(file);
  if (!problem) {
    problem = problem_of_compiling(client, program, options, job);
    if (problem->empty()) {
      problem = problem_of_numbers(client, options, job);
    }
    remember(file, *problem);
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
  const fs::path folder = fs::path(runtime::cache_folder()) / "kernels";
  config.model.attention_kernels = kernels_agree(client, program_options(config), folder, job);
}

}  // namespace kinema::runs
