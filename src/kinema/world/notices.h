#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/stopwatch.h"

namespace kinema::world {

/// Log lines of several processes, collected by the process that prints: mostly all have the same
/// lines, at different times. Not thread-safe.
class LogLines {
 public:
  /// `names`: of the processes, by rank.
  explicit LogLines(std::vector<std::string> names) : names_(std::move(names)) {}

  /// This process has printed the line itself.
  void shown(const std::string& text) { shown_.insert(text); }
  void received(int64_t rank, const std::string& text);
  /// Lines to print: received ones that are at least `seconds` old; equal texts become one line
  /// with the names of their processes; texts that were printed before are skipped.
  std::vector<std::string> due(double seconds);

 private:
  struct Received {
    std::vector<int64_t> ranks;
    Stopwatch age;
  };
  std::vector<std::string> names_;
  std::set<std::string> shown_;
  std::map<std::string, Received> received_;
};

}  // namespace kinema::world
