#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kinema/environments/space.h"
#include "kinema/io/json.h"

namespace kinema::environments {

/// What an environment server says of its environments.
struct ServedSpaces {
  Spaces observations;
  Spaces actions;
  std::vector<std::string> log;  // with their prefix `log/`
  int64_t repeat = 1;

  /// Reads a server's reply; throws an Error that names the entry for anything but spaces of F32,
  /// U8 and S32 whose sizes are usable. `task` begins errors.
  static ServedSpaces read(const io::Json& reply, const std::string& task);
};

/// A log value's name without the prefix that envs.py knows it by.
std::string log_name(const std::string& served);

/// Offsets in bytes of a step's arrays [count, ...] within a record: first what is requested
/// (actions, reset), then what is replied. Everything begins at a multiple of 64.
struct RecordLayout {
  std::map<std::string, int64_t> actions;
  int64_t reset = 0;    // U8 [count], as all flags
  int64_t replies = 0;  // where they begin
  std::map<std::string, int64_t> observations;
  int64_t reward = 0;  // F32 [count]
  int64_t is_first = 0;
  int64_t is_last = 0;
  int64_t is_terminal = 0;
  int64_t restarted = 0;
  std::map<std::string, int64_t> log;  // F32 [count] each
  int64_t bytes = 0;

  /// Throws an Error that names the largest entry where a record is larger than 1 GiB.
  RecordLayout(const ServedSpaces& spaces, int64_t count, const std::string& task);
  io::Json json() const;
};

}  // namespace kinema::environments
