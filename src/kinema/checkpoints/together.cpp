#include "kinema/checkpoints/together.h"

#include <fmt/format.h>

#include <exception>

#include "kinema/core/error.h"

namespace kinema::checkpoints {
namespace {

constexpr double kLongestWrite = 4 * 3600;  // seconds; the heartbeat ends a run that hangs

}  // namespace

Together::Together(world::Communicator& others, int64_t step) : others_(others), step_(step) {}

std::vector<std::string> Together::run(const std::function<std::string()>& work) {
  std::string said;
  try {
    said = "+" + work();
  } catch (const std::exception& error) {
    said = std::string("-") + error.what();
  }
  std::vector<std::string> all = others_.gather(
      said, {.what = fmt::format("the checkpoint of step {}", step_), .seconds = kLongestWrite});
  for (size_t rank = 0; rank < all.size(); ++rank) {
    check(all[rank].starts_with('+'), "{}\n  process {} could not write its part of checkpoint {}",
          all[rank].substr(1), rank, step_);
    all[rank].erase(0, 1);
  }
  return all;
}

void Together::first(const std::function<void()>& work) {
  run([&] {
    if (is_first()) {
      work();
    }
    return std::string();
  });
}

}  // namespace kinema::checkpoints
