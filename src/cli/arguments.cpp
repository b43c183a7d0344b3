#include <fmt/core.h>

#include <cstdio>

#include "cli/commands.h"
#include "core/error.h"

namespace kinema::cli {

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
  if (file.empty()) {
    check(!need_file, "which configuration? give a YAML file, e.g. configs/shapes.yml");
    return config::load_defaults(overrides);
  }
  return config::load(file, overrides);
}

void warn(const std::string& line) { fmt::print(stderr, "kinema: {}\n", line); }

}  // namespace kinema::cli
