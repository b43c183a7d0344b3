#include <fmt/core.h>

#include <string>
#include <vector>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/runs/load.h"

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
  check(!file.empty() || !need_file,
        "which configuration? give a YAML file, e.g. configs/shapes.yml");
  return runs::load(file, overrides, variables(), console_job());
}

}  // namespace kinema::cli
