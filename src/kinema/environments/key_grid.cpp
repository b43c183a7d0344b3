#include "kinema/environments/key_grid.h"

#include <array>

namespace kinema::environments {
namespace {

using Color = std::array<uint8_t, 3>;
constexpr Color kWall{96, 96, 96};
constexpr Color kAgent{255, 255, 255};
constexpr std::array<Color, 2> kKeys{{{255, 64, 64}, {64, 64, 255}}};
constexpr std::array<Color, 2> kDoors{{{192, 0, 0}, {0, 0, 192}}};

/// A number from `first` to `last`.
int64_t number_between(RandomStream& random, int64_t first, int64_t last) {
  return first + static_cast<int64_t>(random.below(static_cast<uint64_t>(last - first + 1)));
}

}  // namespace

KeyGrid::KeyGrid(Settings& settings, const Seed& seed) : Episodic(settings.task(), seed) {
  constexpr int64_t kMostCells = 64;
  constexpr int64_t kMostPixels = 32;
  canvas_.rows = settings.whole("rows", 8, 4, kMostCells);
  canvas_.columns = settings.whole("columns", 8, 5, kMostCells);
  canvas_.cell = settings.whole("cell", 1, 1, kMostPixels);
  key_reward_ = settings.number("key_reward", 0.1, -1.0, 1.0);
  observations_["image"] = {DType::U8, canvas_.blank(3).shape.dims, 0, 256};
  actions_["action"] = {DType::S32, {}, 0, 4};
}

void KeyGrid::start(RandomStream& random) {
  const auto row = [&] { return number_between(random, 1, canvas_.rows - 2); };
  const auto in_left_room = [&] {
    const int64_t r = row();
    return Cell{r, number_between(random, 1, middle() - 1)};
  };
  gap_row_ = row();
  agent_ = in_left_room();
  do {
    key_ = in_left_room();
  } while (key_ == agent_);
  has_key_ = false;
  key_color_ = random.below(2);
  for (Cell& door : doors_) {
    door = {row(), canvas_.columns - 1};
  }
  while (doors_[0] == doors_[1]) {
    doors_[1].row = row();
  }
}

bool KeyGrid::is_wall(const Cell& at) const {
  const bool is_border = at.row == 0 || at.row == canvas_.rows - 1 || at.column == 0 ||
                         at.column == canvas_.columns - 1;
  return is_border || (at.column == middle() && at.row != gap_row_);
}

Outcome KeyGrid::act(const Arrays& action) {
  constexpr std::array<Cell, 4> kMoves{{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}};
  const Cell& move = kMoves.at(static_cast<size_t>(discrete_action(action)));
  const Cell next{agent_.row + move.row, agent_.column + move.column};
  for (size_t color = 0; color < doors_.size(); ++color) {
    if (has_key_ && next == doors_[color]) {
      agent_ = next;
      return {.reward = color == key_color_ ? 1.0F : -1.0F, .is_terminal = true};
    }
  }
  if (!is_wall(next)) {
    agent_ = next;
  }
  const bool takes_key = !has_key_ && agent_ == key_;
  has_key_ = has_key_ || takes_key;
  return {.reward = takes_key ? static_cast<float>(key_reward_) : 0.0F};
}

Arrays KeyGrid::observe() const {
  HostArray image = canvas_.blank(3);
  for (int64_t row = 0; row < canvas_.rows; ++row) {
    for (int64_t column = 0; column < canvas_.columns; ++column) {
      if (is_wall({row, column})) {
        canvas_.fill(image, row, column, kWall);
      }
    }
  }
  for (size_t color = 0; color < doors_.size(); ++color) {
    canvas_.fill(image, doors_[color].row, doors_[color].column, kDoors[color]);
  }
  if (!has_key_) {
    canvas_.fill(image, key_.row, key_.column, kKeys[key_color_]);
  }
  canvas_.fill(image, agent_.row, agent_.column, kAgent);
  return {{"image", std::move(image)}};
}

}  // namespace kinema::environments
