#include "kinema/runs/load.h"

#include "kinema/core/folders.h"
#include "kinema/runs/stores.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// The configurations that come with an installed program lie in its share/kinema.
std::string configuration_file(const std::string& path) {
  std::error_code error;
  const fs::path shipped = program_folder() / "../share/kinema" / path;
  const bool use_shipped = fs::path(path).is_relative() && !fs::exists(path, error) &&
                           fs::is_regular_file(shipped, error);
  return use_shipped ? shipped.lexically_normal().string() : path;
}

}  // namespace

config::Loaded load(const std::string& file, std::span<const std::string> overrides,
                    std::span<const std::string> environment, const Job& job) {
  config::Loaded loaded = file.empty() ? config::load_defaults(overrides, environment)
                                       : config::load(configuration_file(local_copy(file, job)),
                                                      overrides, environment);
  check_store_keys(loaded);
  return loaded;
}

}  // namespace kinema::runs
