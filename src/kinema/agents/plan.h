#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/agents/settings.h"
#include "kinema/io/json.h"
#include "kinema/job/job.h"
#include "kinema/planning/report.h"
#include "kinema/planning/target.h"

namespace kinema::agents {

/// True for a file of an agent's settings: YAML with a block `defaults`.
bool is_settings_file(const std::filesystem::path& file);

struct PlanOptions {
  planning::Target target;                     // its devices train as the mesh of jax.train_mesh
  std::filesystem::path save_executable = {};  // empty: the program is not saved
  int64_t compile_memory = int64_t{16} << 30;  // bytes of memory for the compiling process
  std::vector<std::string> flags = {};         // `NAME=VALUE` for the compiler
  JobOptions job = {};                         // its `program` is required, to compile
};

/// A planned step of training, and how many of them a run has.
struct Plan {
  planning::Report report;
  double environment_steps = 0;  // of the run
  double updates = 0;            // steps of training

  /// Expected seconds of all steps of training; 0 if a step's are not known. Acting overlaps them.
  double seconds() const { return updates * report.compiled.expected.seconds(); }
  /// Text for the console, and the same as JSON.
  std::string text() const;
  io::Json json() const;
};

/// Compiles an agent's step of training for devices that need not be here. The spaces of Atari,
/// Crafter and ProcGen are known; another task's environment is opened once to ask for its. Throws
/// the errors that a run would throw.
Plan plan(const Settings& settings, const PlanOptions& options, const Observer& observer);

}  // namespace kinema::agents
