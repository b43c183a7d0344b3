#pragma once

#include "kinema/environments/episodic.h"
#include "kinema/environments/pixels.h"
#include "kinema/environments/settings.h"

namespace kinema::environments {

/// A ball falls a row a step; the paddle in the last row moves left, stays, or moves right. The
/// episode ends when the ball is in the last row, with reward 1 if the paddle is there too, else
/// -1. Observation `image` U8 [rows * cell, columns * cell, 1]; settings `rows`, `columns` (5, 5)
/// and `cell` (2 pixels).
class Catch : public Episodic {
 public:
  Catch(Settings& settings, const Seed& seed);

 private:
  void start(RandomStream& random) override;
  Outcome act(const Arrays& action) override;
  Arrays observe() const override;

  CellCanvas canvas_;
  int64_t ball_row_ = 0;
  int64_t ball_column_ = 0;
  int64_t paddle_ = 0;
};

}  // namespace kinema::environments
