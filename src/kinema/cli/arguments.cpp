#include <fmt/core.h>

#include <cstdio>
#include <filesystem>

#include "kinema/cli/commands.h"
#include "kinema/cli/stores.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"

extern char** environ;

namespace kinema::cli {
namespace {

std::vector<std::string> variables() {
  std::vector<std::string> out;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    out.emplace_back(*each);
  }
  return out;
}

/// The configurations that come with an installed program (`configs/wan.yml`) lie in its
/// share/kinema; a file of that name here goes before them.
std::string configuration_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path shipped = program_folder() / "../share/kinema" / path;
  const bool use_shipped = fs::path(path).is_relative() && !fs::exists(path, error) &&
                           fs::is_regular_file(shipped, error);
  return use_shipped ? shipped.lexically_normal().string() : path;
}

}  // namespace

config::Loaded load_arguments(std::span<const std::string> words, bool need_file) {
  std::string file;
  std::vector<std::string> overrides;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos) {
      overrides.push_back(word);
      continue;
    }
    check(file.empty(), "`{}` is neither key=value nor the configuration, which is `{}`", word,
          file);
    file = word;
  }
  const std::vector<std::string> environment = variables();
  if (file.empty()) {
    check(!need_file, "which configuration? give a YAML file, e.g. configs/shapes.yml");
    config::Loaded loaded = config::load_defaults(overrides, environment);
    check_store_keys(loaded);
    return loaded;
  }
  config::Loaded loaded =
      config::load(configuration_file(local_copy(file)), overrides, environment);
  check_store_keys(loaded);
  return loaded;
}

}  // namespace kinema::cli
