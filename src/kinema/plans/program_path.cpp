#include "kinema/plans/program_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "kinema/core/error.h"

namespace kinema::plans {

namespace fs = std::filesystem;

JobOptions with_program(JobOptions options) {
  if (!options.program.empty()) {
    return options;
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path program = fs::path(folder) / "kinema";
    if (::access(program.c_str(), X_OK) == 0) {
      options.program = program;
      return options;
    }
  }
  fail(
      "[plan] there is no program kinema in PATH, which is needed to compile\n"
      "  give its path as JobOptions::program");
}

}  // namespace kinema::plans
