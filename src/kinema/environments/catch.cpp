#include "kinema/environments/catch.h"

#include <algorithm>

namespace kinema::environments {

Catch::Catch(Settings& settings, const Seed& seed) : Episodic(settings.task(), seed) {
  constexpr int64_t kMostCells = 64;
  constexpr int64_t kMostPixels = 64;
  canvas_.rows = settings.whole("rows", 5, 2, kMostCells);
  canvas_.columns = settings.whole("columns", 5, 1, kMostCells);
  canvas_.cell = settings.whole("cell", 2, 1, kMostPixels);
  observations_["image"] = {DType::U8, canvas_.blank(1).shape.dims, 0, 256};
  actions_["action"] = {DType::S32, {}, 0, 3};
}

void Catch::start(RandomStream& random) {
  const auto column = [&] {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(canvas_.columns)));
  };
  ball_row_ = 0;
  ball_column_ = column();
  paddle_ = column();
}

Outcome Catch::act(const Arrays& action) {
  const int64_t move = discrete_action(action) - 1;
  paddle_ = std::clamp<int64_t>(paddle_ + move, 0, canvas_.columns - 1);
  ++ball_row_;
  if (ball_row_ < canvas_.rows - 1) {
    return {};
  }
  return {.reward = ball_column_ == paddle_ ? 1.0F : -1.0F, .is_terminal = true};
}

Arrays Catch::observe() const {
  constexpr std::array<uint8_t, 1> kPaddle{128};
  constexpr std::array<uint8_t, 1> kBall{255};
  HostArray image = canvas_.blank(1);
  canvas_.fill(image, canvas_.rows - 1, paddle_, kPaddle);
  canvas_.fill(image, ball_row_, ball_column_, kBall);
  return {{"image", std::move(image)}};
}

}  // namespace kinema::environments
