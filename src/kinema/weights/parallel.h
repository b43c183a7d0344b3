#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace kinema::weights {

/// Calls `work(first, last)` for parts of 0 .. count - 1 that together are all of it, each on a
/// thread of its own; in one part below `least` items. `work` must not throw.
template <typename Work>
void in_parallel(int64_t count, int64_t least, const Work& work) {
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  const int64_t parts =
      std::clamp<int64_t>(count / std::max<int64_t>(least, 1), 1, std::max<int64_t>(cores, 1));
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < parts; ++i) {
    others.emplace_back(
        [&work, first = count * i / parts, last = count * (i + 1) / parts] { work(first, last); });
  }
  work(int64_t{0}, count / parts);
}

}  // namespace kinema::weights
