#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kinema/environments/episodic.h"
#include "kinema/environments/pixels.h"
#include "kinema/environments/settings.h"

namespace kinema::environments {

/// Two rooms between walls, drawn from above. A key, red or blue, is in the left room, where the
/// agent starts. A gap leads to the right room, which has a red and a blue door. Doors are closed
/// until the key is taken, and the key is not drawn afterwards, so the agent must remember its
/// color: the door of that color gives reward 1, the other one -1, and both end the episode.
/// Everything is somewhere else in each episode.
///
/// Observation `image` U8 [rows * cell, columns * cell, 3]. Actions: up, down, left, right.
/// Settings `rows`, `columns` (8, 8), `cell` (1 pixel) and `key_reward` (0.1).
class KeyGrid : public Episodic {
 public:
  KeyGrid(Settings& settings, const Seed& seed);

 private:
  struct Cell {
    int64_t row = 0;
    int64_t column = 0;
    bool operator==(const Cell&) const = default;
  };

  void start(RandomStream& random) override;
  Outcome act(const Arrays& action) override;
  Arrays observe() const override;
  bool is_wall(const Cell& at) const;
  int64_t middle() const { return canvas_.columns / 2; }

  CellCanvas canvas_;
  double key_reward_ = 0.0;
  int64_t gap_row_ = 1;
  Cell agent_;
  Cell key_;
  bool has_key_ = false;
  size_t key_color_ = 0;
  std::array<Cell, 2> doors_;  // by color
};

}  // namespace kinema::environments
