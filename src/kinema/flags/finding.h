#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kinema/flags/flag.h"

namespace kinema::flags {

enum class Severity : uint8_t { NOTE, WARNING, ERROR };

/// Something to say about the flags of a run.
struct Finding {
  std::string id;  ///< of the rule, "fused-all-reduce"
  Severity severity = Severity::NOTE;
  std::string what;      ///< one sentence without its full stop
  std::string remedy;    ///< the smallest change; may be empty
  std::string evidence;  ///< may be empty
  /// Words of the environment variables, as they stand there, that `--fix` leaves out.
  std::vector<std::string> drop;
  /// Words that it puts there instead, and where.
  std::vector<std::pair<Variable, std::string>> add;
  bool allowed = false;  ///< an error that the user let pass by its id
};

}  // namespace kinema::flags
