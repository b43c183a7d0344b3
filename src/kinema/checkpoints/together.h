#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/world/communicator.h"

namespace kinema::checkpoints {

/// Runs the steps in which all processes write a checkpoint: a step ends when all have finished it;
/// if one fails, all throw its error.
class Together {
 public:
  Together(world::Communicator& others, int64_t step);

  bool is_first() const { return others_.rank() == 0; }
  int64_t rank() const { return others_.rank(); }
  /// The results of all processes' `work`, by rank. All throw the same Error, with the process
  /// whose work threw.
  std::vector<std::string> run(const std::function<std::string()>& work);
  /// The same for work that only process 0 does.
  void first(const std::function<void()>& work);

 private:
  world::Communicator& others_;
  int64_t step_;
};

}  // namespace kinema::checkpoints
