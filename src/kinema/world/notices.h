#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/stopwatch.h"

namespace kinema::world {

/// What several processes tell people, gathered by the one that has the console: mostly all say the
/// same, each when it comes to it. Not for several threads.
class Notices {
 public:
  /// `names`: of the processes, by rank.
  explicit Notices(std::vector<std::string> names) : names_(std::move(names)) {}

  /// Has been shown by this process itself.
  void shown(const std::string& text) { shown_.insert(text); }
  void heard(int64_t rank, const std::string& text);
  /// Lines to show: what was heard and is as old as `seconds`, equal texts as one line that says
  /// whose they are, without what was shown before.
  std::vector<std::string> due(double seconds);

 private:
  struct Heard {
    std::vector<int64_t> ranks;
    Stopwatch age;
  };
  std::vector<std::string> names_;
  std::set<std::string> shown_;
  std::map<std::string, Heard> heard_;
};

}  // namespace kinema::world
