#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/resolve/load.h"

extern char** environ;

namespace kinema::cli {

std::vector<std::string> variables() {
  std::vector<std::string> out;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    out.emplace_back(*each);
  }
  return out;
}

config::Loaded load_arguments(std::span<const std::string> words, bool need_file) {
  const auto is_key = [](const std::string& word) { return word.find('=') != std::string::npos; };
  if (need_file && std::ranges::all_of(words, is_key)) {
    (void)config::load_defaults(words, {});  // throws if a key is unknown
    fail(
        "[command] which configuration? give a YAML file before the keys, e.g. configs/shapes.yml");
  }
  return resolve::load_command_line(words, variables(), console_job());
}

}  // namespace kinema::cli
