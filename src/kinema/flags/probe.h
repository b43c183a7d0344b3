#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kinema/flags/value.h"

namespace kinema::flags {

/// Flags to try on a plugin.
struct ProbeRequest {
  std::map<std::string, Value> options;  ///< of the program
  std::string libtpu_init_args;          ///< the environment of the process, and no other flags
  std::string xla_flags;
};

/// What became of it.
struct ProbeAnswer {
  enum class Kind : uint8_t { OK, UNKNOWN, BAD_VALUE, REFUSED };
  Kind kind = Kind::OK;
  std::string said;  ///< the compiler's words, one line
};

/// Compiles a small program in a process of its own, so that a plugin which ends its process for a
/// flag ends that one. Throws an Error when no plugin can be asked.
using Probe = std::function<ProbeAnswer(const ProbeRequest&)>;

/// The kind of answer that a compiler's message is; `ok` when it is empty.
ProbeAnswer answer_of(const std::string& message);

}  // namespace kinema::flags
