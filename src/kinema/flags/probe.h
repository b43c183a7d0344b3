#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kinema/flags/value.h"

namespace kinema::flags {

/// Flags to try in a plugin.
struct ProbeRequest {
  std::map<std::string, Value> options;  ///< the program's options
  std::string libtpu_init_args;          ///< the process's environment, without other flags
  std::string xla_flags;
};

/// The plugin's answer.
struct ProbeAnswer {
  enum class Kind : uint8_t { OK, UNKNOWN, BAD_VALUE, REFUSED };
  Kind kind = Kind::OK;
  std::string said;  ///< the compiler's message, one line
};

/// Compiles a small program in a separate process, because a flag may make a plugin end its
/// process. Throws an Error when no plugin can be asked.
using Probe = std::function<ProbeAnswer(const ProbeRequest&)>;

/// Classifies a compiler's message; OK if it is empty.
ProbeAnswer parse_probe_answer(const std::string& message);

}  // namespace kinema::flags
