#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/world/communicator.h"

namespace kinema::checkpoints {

/// A checkpoint as all processes of a run write it, step by step: a step is over when all have done
/// theirs, and where one could not, all throw its error.
class Together {
 public:
  Together(world::Communicator& others, int64_t step);

  bool is_first() const { return others_.rank() == 0; }
  int64_t rank() const { return others_.rank(); }
  /// What each process's `work` gave, by rank. Throws the same Error in all, which names the
  /// process whose work threw.
  std::vector<std::string> run(const std::function<std::string()>& work);
  /// The same for what process 0 alone does.
  void first(const std::function<void()>& work);

 private:
  world::Communicator& others_;
  int64_t step_;
};

}  // namespace kinema::checkpoints
