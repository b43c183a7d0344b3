#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kinema/flags/flag.h"

namespace kinema::flags {

enum class Severity : uint8_t { NOTE, WARNING, ERROR };

/// An error, warning or note about the flags of a run.
struct Finding {
  std::string id;  ///< the rule's id, "fused-all-reduce"
  Severity severity = Severity::NOTE;
  std::string what;      ///< one sentence without its full stop
  std::string remedy;    ///< the smallest change; may be empty
  std::string evidence;  ///< may be empty
  /// Words of the environment variables, as written there, that `--fix` removes.
  std::vector<std::string> drop;
  /// Words that `--fix` adds instead, and the variable for each.
  std::vector<std::pair<Variable, std::string>> add;
  bool allowed = false;  ///< an error that the user allowed by its id
};

}  // namespace kinema::flags
